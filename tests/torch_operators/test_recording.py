"""`torch.jit.trace` records the operators, whoever calls them, and however often they were called before."""

import pytest
import torch

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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("is_often", [False, True], ids=["first", "often"])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_recorded_moves_other_tensors(name, is_often):
    call, x = CALLS[name], torch.arange(24.0).reshape(4, 6)
    if is_often:
        often(lambda: call(x))
    recorded = torch.jit.trace(call, x, check_trace=False)
    for other in (x, x + 100):
        assert torch.equal(recorded(other), call(other))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("is_often", [False, True], ids=["first", "often"])
def test_what_is_no_operator_is_refused(is_often):
    x, fused = torch.arange(24.0).reshape(4, 6), dml.fuse(lambda x: x.T)
    if is_often:
        often(lambda: fused(x))
    with pytest.raises(dml.BindingError, match=r"torch\.jit\.trace records: .*torch\.ops\.anydml"):
        torch.jit.trace(lambda x: fused(x) + 0, x, check_trace=False)
