"""Calls on tensors in one step: what fits takes it, what does not is refused or done as before."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import anydml as dml  # noqa: E402
from anydml.engines.cpu.launch import LOADER  # noqa: E402
from anydml.functions import calling  # noqa: E402
from anydml.functions.steps import PLANS, GuestStep  # noqa: E402
from anydml.memory.dlpack_struct import reader_of  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("own_plans"),
    pytest.mark.skipif(not reader_of(torch.Tensor), reason="this PyTorch has no table of DLPack's functions"),
]

CALLS = {
    "split": (lambda x, out: dml.split(x, [2, 4], 1, out=out), lambda x: list(torch.split(x, [2, 4], 1))),
    "join": (lambda x, out: dml.join([x, x], 1, out=out), lambda x: torch.cat([x, x], 1)),
    "slice1": (lambda x, out: dml.slice1(x, [0, 1], (5, 4), (1, -1), out=out), lambda x: x[:, 1:5].flip(1)),
    "gather": (lambda x, out: dml.gather(x, torch.tensor([2, 0, -1]), out=out), lambda x: x[[2, 0, -1]]),
    "copy": (lambda x, out: dml.copy(x, out=out), lambda x: x.clone()),
}


def warm(call):
    for _ in range(20):
        result = call()
    assert LOADER.settle(120)
    for _ in range(2):
        result = call()
    return result


def drawn(dtype, transposed=False):
    x = torch.arange(1, 31).reshape((6, 5) if transposed else (5, 6)).to(dtype)
    return x.T if transposed else x


def same(result, expected):
    pairs = zip(result, expected, strict=True) if isinstance(expected, list) else [(result, expected)]
    return all(torch.equal(one, other) and one.dtype == other.dtype and one.is_contiguous() for one, other in pairs)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("with_out", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_step_does_what_the_long_way_does(name, dtype, with_out, transposed, monkeypatch):
    call, meant = CALLS[name]
    x = drawn(dtype, transposed)
    expected = meant(x)
    out = None
    if with_out:
        out = [torch.zeros_like(each, memory_format=torch.contiguous_format) for each in expected]
        out = out if isinstance(expected, list) else torch.stack(out)
    warm(lambda: call(x, out))
    assert [type(step) for steps in PLANS.steps.values() for step in steps] == [GuestStep]
    monkeypatch.setattr(calling, "_call", None)
    monkeypatch.setattr(PLANS, "quick", {})
    other = x.roll(1, 0) if not transposed else x.T.roll(1, 0).T
    before = 0 if out is None else (out[0] if isinstance(out, list) else out)._version
    result = call(other, out)
    assert same(result, meant(other))
    if out is not None:
        assert (out[0] if isinstance(out, list) else out)._version > before
        assert result is out or all(one is each for one, each in zip(result, out, strict=True))


def test_calls_that_take_turns_have_a_step_each(monkeypatch):
    tensors = [drawn(torch.float32), drawn(torch.float32, True), drawn(torch.int64), drawn(torch.bool)]
    tensors[1] = torch.arange(60.0).reshape(5, 12)[:, ::2]

    def each():
        return [dml.split(x, 5, 0) for x in tensors]

    warm(each)
    monkeypatch.setattr(calling, "_call", None)
    for x, parts in zip(tensors, each(), strict=True):
        assert same(parts, list(torch.split(x, 1)))


def test_arrays_of_one_shape_that_take_turns_have_a_step_each(monkeypatch):
    arrays = [np.arange(60.0).reshape(5, 12)[:, ::2], np.arange(30.0).reshape(6, 5).T, np.arange(30).reshape(5, 6)]

    def each():
        return [dml.gather(x, np.array([1, 0])) for x in arrays]

    warm(each)
    monkeypatch.setattr(calling, "_call", None)
    assert all(np.array_equal(y, x[[1, 0]]) and y.dtype == x.dtype for x, y in zip(arrays, each(), strict=True))


def test_what_a_step_must_not_read_goes_the_long_way():
    x = drawn(torch.float32)
    warm(lambda: dml.copy(x))
    recording = drawn(torch.float32).requires_grad_()
    with pytest.raises(dml.BindingError, match="requires grad"):
        dml.copy(recording)
    with torch.no_grad():
        assert torch.equal(dml.copy(recording), recording)
    negative = torch._neg_view(x)
    assert torch.equal(dml.copy(negative), -x)
    shrunk = drawn(torch.float32)
    shrunk.untyped_storage().resize_(116)
    with pytest.raises(dml.BindingError, match="holds 116 of 120 bytes"):
        dml.copy(shrunk)
    shifted = torch.arange(31.0)[1:].reshape(5, 6)
    assert torch.equal(dml.copy(shifted), shifted)
    shifted.untyped_storage().resize_(120)
    with pytest.raises(dml.BindingError, match="holds 120 of 124 bytes"):
        dml.copy(shifted)
    assert torch.equal(dml.copy(torch.nn.Parameter(x, requires_grad=False)), x)
    with pytest.raises(dml.BindingError, match="on meta"):
        dml.copy(torch.empty(5, 6, device="meta"))
    with pytest.raises(dml.BindingError, match="to_dense"):
        dml.copy(x.to_sparse())


def test_an_out_that_a_step_must_not_write_is_refused_as_before():
    x, out = drawn(torch.float32), torch.zeros(5, 6)
    warm(lambda: dml.copy(x, out=out))
    for bad, words in (
        (torch.zeros(5, 6, requires_grad=True), "requires grad"),
        (x, "overlap|share"),
        (torch._neg_view(torch.zeros(5, 6)), "lazy"),
        (torch.zeros(5, 6, dtype=torch.float64), "result is"),
        (np.zeros((5, 6), np.float32), "NumPy"),
        (torch.zeros(6, 6)[:5].T, "shape"),
    ):
        with pytest.raises(dml.BindingError, match=words):
            dml.copy(x, out=bad)


def test_a_default_device_does_not_take_results_elsewhere():
    x = drawn(torch.float32)
    warm(lambda: dml.split(x, 5))
    with torch.device("meta"):
        assert all(part.device.type == "cpu" for part in dml.split(x, 5))


def test_indices_of_another_library_are_refused_as_before():
    x, indices = drawn(torch.float32), torch.tensor([1, 0])
    warm(lambda: dml.gather(x, indices))
    assert torch.equal(dml.gather(x, [1, 0]), x[[1, 0]])
    assert torch.equal(dml.gather(x, np.array([1, 0])), x[[1, 0]])
    assert torch.equal(dml.gather(x, torch.tensor([1, 0], dtype=torch.int32)), x[[1, 0]])
    with pytest.raises(IndexError):
        dml.gather(x, torch.tensor([7, 0]), out_of_range="error")
    with pytest.raises(dml.DescError, match="out_of_range"):
        dml.gather(x, indices, out_of_range=np.array(["clamp", "error"]))
