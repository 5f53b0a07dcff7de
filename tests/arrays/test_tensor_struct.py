"""Calls that compiled code does on tensors whose structure it reads: what it reads, refuses, makes and tells."""

import ctypes
import gc
import itertools
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import anydml as dml  # noqa: E402
from anydml.arrays import torch_struct  # noqa: E402
from anydml.arrays.quick import QUICK  # noqa: E402
from anydml.engines.cpu.compiler import import_kernels  # noqa: E402
from anydml.engines.cpu.launch import LOADER  # noqa: E402
from anydml.memory import tensor_struct  # noqa: E402

dml.copy(torch.zeros(1))
pytestmark = [
    pytest.mark.usefixtures("own_plans"),
    pytest.mark.skipif(QUICK[torch.Tensor].structure() is None, reason="this PyTorch's tensors lie in another way"),
]


def drawn():
    return torch.arange(1.0, 31.0).reshape(5, 6)


def warm(call):
    import_kernels()
    for _ in range(20):
        call()
    assert LOADER.settle(120)
    for _ in range(3):
        result = call()
    return result


def test_what_is_read_is_what_pytorch_says():
    from anydml.engines.cpu.kernels import tensors

    structure = QUICK[torch.Tensor].structure()
    kernel, words = tensors.reader(), structure.table.ctypes.data
    description = (ctypes.c_int64 * 6)()
    rng = np.random.default_rng(3)
    dtypes = {
        torch.int8: (0, 8),
        torch.uint16: (1, 16),
        torch.float16: (2, 16),
        torch.bfloat16: (4, 16),
        torch.bool: (6, 8),
    }
    for dtype, rank in itertools.product(dtypes, range(9)):
        x = torch.zeros([int(size) for size in rng.integers(1, 4, rank)], dtype=dtype)
        x = torch.zeros(7 + 2 * x.numel(), dtype=dtype)[3 : 3 + x.numel()].view(x.shape)
        x = x.permute(*rng.permutation(rank).tolist()) if rank else x
        assert kernel(words, id(x), ctypes.addressof(description)) == 0
        code, bits = dtypes[dtype]
        address, device, kind, shape, strides, offset = description
        assert (address, device, offset) == (x.data_ptr(), 1, 0)
        assert kind == rank | code << 32 | bits << 40 | 1 << 48
        assert [*(ctypes.c_int64 * rank).from_address(shape)] == [*x.shape]
        assert [*(ctypes.c_int64 * rank).from_address(strides)] == [*x.stride()]


@pytest.mark.parametrize("name", ["CLASS", "KEYS", "PLAIN", "INFERRING", "START", "NUMBER", "HELD", "FIRST_DTYPE"])
def test_a_structure_that_does_not_hold_is_not_relied_on(name, monkeypatch):
    from anydml.engines.cpu.tensors import _reading

    known = QUICK[torch.Tensor].structure()
    table = known.table.copy()
    # Those that only lead to numbers: any other would lead outside of memory.
    table[getattr(tensor_struct, name)] += np.uint64(8)
    monkeypatch.setitem(
        QUICK, torch.Tensor, QUICK[torch.Tensor]._replace(structure=lambda: known._replace(table=table))
    )
    assert _reading.__wrapped__(torch.Tensor) is None


@pytest.mark.parametrize("lack", ["_FUNCTIONS", "IS_KNOWN"])
def test_without_its_words_there_is_no_structure(lack, monkeypatch):
    monkeypatch.setattr(torch_struct, lack, {0: "no_such_function"} if lack == "_FUNCTIONS" else False)
    assert torch_struct.structure({torch.float32: np.dtype("f4")}) is None


def test_tensors_of_an_unknown_structure_are_moved_as_well(monkeypatch):
    from anydml.engines.cpu import tensors, whole_calls

    for module in (tensors, whole_calls):
        monkeypatch.setattr(module, "reading", lambda kind: None)
    # Launches are kept by their shapes: these are no other test's.
    x, out = torch.arange(77.0).reshape(7, 11), torch.zeros(11, 7)
    fused = dml.fuse(lambda x: (x.T, x[1:]))
    warm(lambda: (dml.copy(x), dml.copy(x.T, out=out), fused(x)))
    assert fused._steps.whole is None
    before = out._version
    assert torch.equal(dml.copy(x + 1), x + 1)
    assert torch.equal(dml.copy(x.T, out=out), x.T)
    assert out._version > before
    assert all(map(torch.equal, fused(x), (x.T, x[1:])))


def test_parameters_are_as_good_as_tensors(monkeypatch):
    rows, indices = torch.nn.Parameter(drawn()), torch.tensor([2, 0, -1])
    out, own = torch.zeros(3, 6), torch.nn.Parameter(torch.zeros(5, 6))
    fused = dml.fuse(lambda table, places, rest: (table[places], rest["b"].T))

    def every():
        with torch.no_grad():
            dml.copy(rows, out=own)
            given = dml.gather(rows, indices), dml.gather(rows, indices, out=out), dml.join([drawn(), rows])
            return *given, *fused(rows, indices, {"b": rows})

    warm(every)
    monkeypatch.setattr(dml.tracing.fused.Fused, "_plan", None)
    own.data.zero_()
    before = own._version
    found = every()
    picked = rows.detach()[indices]
    for one, other in zip(found, (picked, picked, torch.cat([drawn(), rows.detach()]), picked, drawn().T), strict=True):
        assert type(one) is torch.Tensor
        assert not one.requires_grad
        assert torch.equal(one, other)
    assert torch.equal(own.detach(), drawn())
    assert own._version == before + 1


def test_parameters_that_record_are_refused_as_before():
    rows, indices = torch.nn.Parameter(drawn()), torch.tensor([2, 0, -1])
    frozen = torch.nn.Parameter(drawn(), requires_grad=False)
    fused = dml.fuse(lambda table, places: table[places])

    def every():
        with torch.no_grad():
            return dml.gather(rows, indices), fused(rows, indices), dml.copy(rows)

    warm(every)
    for call in (lambda x: dml.gather(x, indices), lambda x: fused(x, indices), dml.copy):
        with pytest.raises(dml.BindingError, match="requires grad"):
            call(rows)
        assert torch.equal(call(frozen), call(drawn()))


def test_what_makes_results_without_memory_is_refused_as_before():
    x, out = drawn(), torch.zeros(5, 6)
    fused = dml.fuse(lambda x: x[1:])
    warm(lambda: (dml.copy(x), fused(x), dml.copy(x, out=out)))
    for call in (dml.copy, fused):
        with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(dml.BindingError, match="have no memory"):
            call(x)
        with pytest.raises(dml.BindingError, match="have no memory"):
            torch.func.grad(lambda y, call=call: (y.sum() * call(x)).sum())(torch.ones(5, 6))
    out.zero_()
    with FakeTensorMode(allow_non_fake_inputs=True):
        dml.copy(x, out=out)
    assert torch.equal(out, x)
    assert torch.equal(torch.func.vmap(lambda y: y * dml.copy(x))(torch.ones(2, 5, 6))[1], x)


def test_large_work_tells_what_was_written():
    x = torch.arange(3 << 20, dtype=torch.float32).reshape(1 << 10, 3 << 10)
    out = torch.empty(3 << 10, 1 << 10)
    fused = dml.fuse(lambda x: {"turned": x.T})
    warm(lambda: (dml.copy(x.T, out=out), dml.copy(x.T), fused(x, out={"turned": out})))
    for call in (lambda: dml.copy(x.T, out=out), lambda: fused(x, out={"turned": out})):
        out.zero_()
        before = out._version
        call()
        assert out._version == before + 1
        assert torch.equal(out, x.T)
    assert torch.equal(dml.copy(x.T), x.T)


@pytest.mark.parametrize("context", [FakeTensorMode, torch.inference_mode, lambda: torch.device("meta")])
def test_a_structure_is_found_whatever_the_caller_is_in(context, monkeypatch):
    from anydml.arrays import pytorch
    from anydml.engines.cpu.tensors import _reading

    find = QUICK[torch.Tensor]._replace(structure=pytorch._structure.__wrapped__)
    monkeypatch.setitem(QUICK, torch.Tensor, find)
    with context():
        assert _reading.__wrapped__(torch.Tensor) is not None


def test_no_reference_is_lost_or_kept():
    x, out, rows = drawn(), [torch.zeros(5, 3), torch.zeros(5, 3)], torch.nn.Parameter(drawn())
    sizes, recording = [3, 3], drawn().requires_grad_()
    fused = dml.fuse(lambda given, n: {"first": given["x"][:n], "rest": [given["x"].T]})
    given = {"x": x}

    def every():
        with torch.no_grad():
            dml.copy(rows)
        return dml.split(x, sizes, 1), dml.split(x, sizes, 1, out=out), fused(given, 2)

    warm(every)
    held = [x, *out, out, rows, sizes, given, None, True, 1, 2, 3]
    # What earlier tests left behind would be collected in between, with all that it refers to.
    gc.collect()
    before = [sys.getrefcount(each) for each in held]
    for _ in range(2000):
        result = every()
        dml.copy(torch._neg_view(x))
        with pytest.raises(dml.BindingError):
            dml.copy(recording)
    del result
    gc.collect()
    after = [sys.getrefcount(each) for each in held]
    # Numbers and None belong to others, too.
    assert all(abs(new - old) < 1000 for new, old in zip(after, before, strict=True)), [
        *zip(before, after, strict=True)
    ]
    assert after[:-5] == before[:-5]
