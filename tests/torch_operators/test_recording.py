"""`torch.jit.trace` and `make_fx` record the operators, whoever calls them, and however often they were called."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import anydml as dml
import anydml.torch

CALLS = {
    "operator": lambda x: torch.ops.anydml.split(x, [3, 3], 1)[0] + 0,
    "function": lambda x: dml.split(x, 2, 1)[0] + 0,
    "pytorch's function": lambda x: anydml.torch.join([x, x], 1),
    "copy": lambda x: dml.copy(x.T) + 0,
    "copy to out": lambda x: dml.copy(x.T, out=x.new_zeros(6, 4)) + 0,
    "gather": lambda x: dml.gather(x, torch.tensor([2, 0])) * 2,
}


def often(call):
    for _ in range(40):
        call()


@pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("is_often", [False, True], ids=["first", "often"])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_recorded_moves_other_tensors(name, is_often):
    call, x = CALLS[name], torch.arange(24.0).reshape(4, 6)
    if is_often:
        often(lambda: call(x))
    recorded = torch.jit.trace(call, x, check_trace=False)
    for other in (x, x + 100):
        assert torch.equal(recorded(other), call(other))


@pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("is_often", [False, True], ids=["first", "often"])
def test_what_is_no_operator_is_refused(is_often):
    x, fused = torch.arange(24.0).reshape(4, 6), dml.fuse(lambda x: x.T)
    if is_often:
        often(lambda: fused(x))
    with pytest.raises(dml.BindingError, match=r"torch\.jit\.trace records: .*torch\.ops\.anydml"):
        torch.jit.trace(lambda x: fused(x) + 0, x, check_trace=False)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", CALLS)
def test_what_make_fx_records_moves_other_tensors(name, mode):
    call, x = CALLS[name], torch.arange(24.0).reshape(4, 6)
    recorded = make_fx(call, tracing_mode=mode)(x)
    for other in (x, x + 100):
        assert torch.equal(recorded(other), call(other))


def test_what_make_fx_cannot_record_is_refused():
    with pytest.raises(dml.BindingError, match=r"make_fx records: .*torch\.ops\.anydml"):
        make_fx(dml.fuse(lambda x: x.T))(torch.ones(2, 3))


class Passing(TorchDispatchMode):
    """A mode that calls what it sees."""

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        return function(*arguments, **(named or {}))


def test_modes_that_are_switched_off_record_nothing():
    x = torch.arange(24.0).reshape(4, 6)
    with Passing(), torch._C._DisableTorchDispatch():
        found = dml.flip(x, 0), torch.ops.anydml.flip(x, [0])
    assert all(torch.equal(each, x.flip(0)) for each in found)
