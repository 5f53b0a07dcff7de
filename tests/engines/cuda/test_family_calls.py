"""The functions of the whole family by the GPU engine: on a GPU, or interpreted."""

from unittest import mock

import numpy as np
import pytest
from function_cases import DRAW, called

import anydml as dml
from anydml.engines.cuda.arrays import DeviceArrays
from anydml.engines.cuda.available import is_interpreted
from anydml.functions.call_plans import call

CALLS = 3


def on_device(name, operation, inputs, arguments, out, adapter, *step):
    """As the functions call it for arrays on a GPU, which have no steps."""
    return call(name, operation, inputs, arguments, out, adapter, DeviceArrays(None))


@pytest.mark.parametrize("name", DRAW)
def test_interpreted(name, device):
    if not is_interpreted():
        pytest.skip("there is a GPU")
    rng = np.random.default_rng([10, *name.encode()])
    function = getattr(dml, name)
    with mock.patch.dict(function.__globals__, call=on_device):
        for _ in range(CALLS):
            arguments, expected = DRAW[name](rng, np.dtype("u4"))
            found = np.asarray(called(function, arguments))
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", DRAW)
def test_on_a_gpu(name):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    rng = np.random.default_rng([11, *name.encode()])
    function = getattr(dml, name)

    def moved(value):
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            return [moved(each) for each in value]
        return torch.from_numpy(np.ascontiguousarray(value)).cuda() if isinstance(value, np.ndarray) else value

    for _ in range(60):
        arguments, expected = DRAW[name](rng, np.dtype("f4"))
        if any(isinstance(each, np.ndarray) and not each.dtype.isnative for each in arguments):
            continue
        found = called(function, [*map(moved, arguments)]).cpu().numpy()
        assert found.shape == expected.shape
        assert found.tobytes() == np.ascontiguousarray(expected).tobytes()
