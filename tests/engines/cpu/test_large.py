"""Larger bound work in compiled code, with and without workers."""

import os
import sys
import time

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import launch
from anydml.engines.cpu.block import ALIVE
from anydml.engines.cpu.pool import POOL
from anydml.memory.numpy_struct import IS_KNOWN

OWN = os.path.dirname(launch.__file__)
ROWS = 2048
SOON = 60


@pytest.fixture(autouse=True)
def threads(own_plans):
    if not IS_KNOWN:
        pytest.skip("nobody knows where NumPy's arrays keep what they are")
    before = dml.get_num_threads()
    dml.set_num_threads(2)
    yield
    dml.set_num_threads(before)


def source():
    return np.arange(ROWS * 1024, dtype=np.int32).reshape(ROWS, 1024)


def _is_whole(call):
    """Whether nothing of the engine's Python runs in a call."""
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return not [name for name in seen if name.startswith(OWN)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_bound_work_is_done_in_compiled_code_too(count):
    x = source()
    out = np.zeros((1024, ROWS), np.int32)
    kind = dml.TensorDesc(dml.DataType.INT32, x.T.shape, tuple(stride // 4 for stride in x.T.strides))
    desc = dml.ElementWiseIdentityOperatorDesc(kind, dml.TensorDesc(dml.DataType.INT32, out.shape))
    bound = dml.Device("cpu").compile_operator(desc).bind(inputs=[x.reshape(-1)], outputs=[out])
    dml.set_num_threads(count)
    end = time.monotonic() + SOON
    while True:
        out.fill(-1)
        bound.dispatch()
        assert np.array_equal(out, x.T)
        if POOL._crew.words[ALIVE] == count - 1 and _is_whole(bound.dispatch):
            break
        assert time.monotonic() < end, "Python does it still"
    x += 1
    assert bound.dispatch() is None
    assert np.array_equal(out, x.T)
    out.flags.writeable = False
    with pytest.raises(dml.BindingError):
        bound.dispatch()
