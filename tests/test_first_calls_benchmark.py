"""The benchmark of first calls: everybody does the same work, in processes of their own."""

import importlib.util

import numpy as np
import pytest

from benchmarks import first_calls


@pytest.mark.parametrize("name", first_calls.WORK)
def test_everybody_does_the_same_work(name):
    x = np.arange(20 * 32, dtype=np.float32).reshape(20, 32)
    right = first_calls.function_of("numpy", name)(x)
    np.testing.assert_array_equal(first_calls.function_of("anydml", name)(x), right)
    if importlib.util.find_spec("torch"):
        import torch

        np.testing.assert_array_equal(first_calls.function_of("torch", name)(torch.from_numpy(x)), right)


def test_four_figures_of_each_are_printed(capsys):
    assert first_calls.main(["--rounds", "1", "--only", "numpy"]) == 0
    rows = capsys.readouterr().out.splitlines()[-4:]
    assert [row.split("numpy")[0].strip() for row in rows] == [*first_calls.WORK]
    assert all(len(row.split("numpy")[1].split()) == 4 for row in rows)


def test_calls_of_functions_have_other_shapes_each_time():
    for library in ("numpy", "anydml"):
        shapes = [call().shape for call in first_calls.calls_of(library, "flip")]
        assert len({*shapes}) == first_calls.CALLS
