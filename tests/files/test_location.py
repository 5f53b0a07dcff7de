from __future__ import annotations

import sys
import time

import pytest

from anydml.errors import ModelError
from anydml.files.location import Location, names, show

HERE = Location("m.json")


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (HERE, "m.json"),
        (HERE / "resources" / "A" / 3, "m.json: resources.A[3]"),
        (HERE / 0 / "b", "m.json: [0].b"),
        (HERE / "my input" / "$x-y", 'm.json: ["my input"].$x-y'),
        (HERE / "a\n\u202eb", 'm.json: ["a\\n\\u202eb"]'),
        (Location("m.json", "tensor t") / 1, "m.json: tensor t[1]"),
        (Location("a\nm.json: no problems.json"), r"a\nm.json: no problems.json"),
        (HERE / ("k" * 60), f"m.json: {'k' * 60}"),
        (HERE / ("k" * 61) / "x", f'm.json: ["{"k" * 57}..."].x'),
        (HERE / ("é" * 10_000), f'm.json: ["{"é" * 57}..."]'),
        (HERE / "über.gewicht", 'm.json: ["über.gewicht"]'),
    ],
)
def test_paths(location, text):
    assert str(location) == text
    assert str(location.error("is wrong")) == f"{text}: is wrong"


def test_a_step_costs_nothing_of_what_is_before_it():
    location = HERE / ("k" * 10_000_000)
    start = time.process_time()
    steps = [location / i for i in range(10_000)]
    # Strings of these paths would be 100 GB.
    assert time.process_time() - start < 1
    assert sys.getsizeof(steps[0]) < 200
    assert len(str(steps[-1])) < 100


def test_places_are_what_they_say():
    assert Location("m.json", "a[1]") == HERE / "a" / 1
    assert HERE / "a" != HERE
    assert len({HERE / "a", HERE / "a", Location("m.json", "a")}) == 1


def test_an_error_is_one_printable_line():
    error = (HERE / "a").error("x\nm.json: no problems \u202e" + "y")
    assert isinstance(error, ModelError)
    assert str(error) == r"m.json: a: x\nm.json: no problems \u202ey"
    assert error.field == "a"


def test_values_are_shown_short_and_printable():
    assert show("a\u202eb\x9b\n") == '"a\\u202eb\\x9b\\n"'
    assert show("x" * 10_000_000) == f'"{"x" * 56}...'
    assert show([1] * 9) == "an array of 9"
    assert names(f"n{i}" for i in range(12)).endswith('"n9" and 2 more')
    assert names([]) == "none"
