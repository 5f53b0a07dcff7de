"""Libraries that are not installed are left out by all other tests; a run that is for one says so here."""

import importlib
import os

import pytest
from array_libraries import LIBRARIES

EXPECTED = ["numpy", *os.environ.get("ANYDML_EXPECT", "").split()]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_library_that_is_expected_is_tested(name):
    library = LIBRARIES[name]()
    assert library.is_own(library.ones(2, 3))
    assert importlib.import_module(name).__name__ == library.name
