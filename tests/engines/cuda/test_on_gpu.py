"""What only a GPU can show: streams, graphs, uploads, memory, and more than 2³¹ elements."""

import gc

import numpy as np
import pytest
from cuda_memory import ON_GPU, needs_functions

import anydml as dml
from anydml.engines.cuda.engine import CudaProgram
from anydml.memory.device_array import as_array
from anydml.moves import Access, Lookup, Move, Operand, Program

if not ON_GPU:
    pytest.skip("there is no GPU, or TRITON_INTERPRET is set", allow_module_level=True)

torch = pytest.importorskip("torch")
UNEQUAL = [500 + n % 7 for n in range(1024)]
WAYS = pytest.mark.parametrize("sizes", [[64] * 4, [64, 32, 16], UNEQUAL], ids=["equal", "unequal", "table"])
LONG = 2 * 10**9
"""Clock cycles that a GPU sleeps for longer than anything here takes: about a second."""


def tensor(data_type, *sizes):
    return dml.TensorDesc(data_type, sizes)


def f32(*sizes):
    return tensor("FLOAT32", *sizes)


def bound_split(device, sizes, rows=8):
    x = torch.rand(rows, sum(sizes), device="cuda")
    outputs = [torch.zeros(rows, n, device="cuda") for n in sizes]
    desc = dml.SplitOperatorDesc(f32(rows, sum(sizes)), [f32(rows, n) for n in sizes], 1)
    return device.compile_operator(desc).bind([x], outputs), x, outputs


def check_split(x, outputs):
    for output, part in zip(outputs, x.split([y.shape[1] for y in outputs], 1), strict=True):
        assert torch.equal(output, part)


@WAYS
def test_a_dispatch_is_captured_and_replayed(device, sizes):
    bound, x, outputs = bound_split(device, sizes)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound.dispatch()
    for _ in range(3):
        x.copy_(torch.rand_like(x))
        graph.replay()
        check_split(x, outputs)


def test_a_lookup_is_captured_and_replayed(device):
    x, output = torch.rand(50, 64, device="cuda"), torch.zeros(30, 64, device="cuda")
    indices = torch.zeros(1, 30, dtype=torch.int64, device="cuda")
    desc = dml.GatherOperatorDesc(f32(50, 64), tensor("INT64", 1, 30), f32(30, 64), 0, 1)
    bound = device.compile_operator(desc).bind([x, indices], [output])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound.dispatch()
    for _ in range(3):
        indices.copy_(torch.randint(-50, 50, (1, 30)))
        graph.replay()
        assert torch.equal(output, x[indices[0]])


def test_a_dispatch_of_1024_parts_is_one_launch_that_uploads_and_allocates_nothing(device):
    bound, x, outputs = bound_split(device, UNEQUAL)
    bound.dispatch()
    torch.cuda.synchronize()
    allocations = torch.cuda.memory_stats()["allocation.all.allocated"]
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(10):
            bound.dispatch()
        torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == allocations
    names = [event.name for event in profile.events()]
    assert not [name for name in names if "memcpy" in name.lower()]
    assert sum("move_tiles" in name for name in names) == 10
    check_split(x, outputs)


@WAYS
def test_work_runs_on_the_current_stream(device, sizes):
    bound, x, outputs = bound_split(device, sizes)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        x.fill_(7)
        bound.dispatch()
        assert not stream.query()
    stream.synchronize()
    check_split(x, outputs)


@WAYS
def test_the_host_waits_for_nothing(device, sizes):
    bound_split(device, sizes)[0].dispatch()
    torch.cuda.synchronize()
    x = torch.rand(8, sum(sizes), device="cuda")
    outputs = [torch.zeros(8, n, device="cuda") for n in sizes]
    desc = dml.SplitOperatorDesc(f32(8, sum(sizes)), [f32(8, n) for n in sizes], 1)
    operator = device.compile_operator(desc)
    torch.cuda._sleep(LONG)
    bound = operator.bind([x], outputs)
    bound.dispatch()
    assert not torch.cuda.current_stream().query(), "binding or dispatch waited for the GPU"
    torch.cuda.synchronize()
    check_split(x, outputs)


def test_a_table_outlives_what_was_dispatched(device):
    bound, x, outputs = bound_split(device, UNEQUAL)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        bound.dispatch()
    del bound
    gc.collect()
    # Tables of the same size, which would lie where the first one lay.
    others = [bound_split(device, UNEQUAL) for _ in range(3)]
    assert not stream.query()
    torch.cuda.synchronize()
    check_split(x, outputs)
    for other, source, parts in others:
        other.dispatch()
        check_split(source, parts)


def scatter(count, axis, outside="clamp"):
    """``y[i[n]] = x[n]`` by way of scratch, where a constant covers the first 16 of x, and its tensors of INT32."""
    roles = (Operand("input", "x"), Operand("input", "i"), Operand("output", "y"))
    constant = Operand("constant", "c", value=np.full(64, 7, np.uint8))
    scratch = Operand("scratch", "s", 4 * count, reason="a test")
    indices = Lookup(1, "int64", 0, (8,), axis, 4, outside)
    moves = (
        Move((), Access(4, 0, ()), Access(0, 0, ()), 4 * count),
        Move((), Access(4, 0, ()), Access(3, 0, ()), 64),
        Move((count,), Access(2, 0, (0,), (indices,)), Access(4, 0, (4,)), 4),
    )
    x = torch.arange(count, dtype=torch.int32, device="cuda")
    i, y = torch.randint(0, axis, (count,), device="cuda"), torch.zeros(axis, dtype=torch.int32, device="cuda")
    return CudaProgram.of(Program("scatter", (*roles, constant, scratch), moves), 0), x, i, y


def scattered(x, i, y):
    """What a scatter leaves in a y of zeros, on the host."""
    result = np.zeros(len(y), np.int32)
    values = x.cpu().numpy().copy()
    values[:16] = 0x07070707
    result[i.cpu().numpy()] = values
    return result


def test_the_last_of_very_many_writes_wins(device):
    for count, axis in ((1 << 20, 100), (1 << 20, 1 << 18)):
        program, x, i, y = scatter(count, axis)
        bound = program.bind([as_array(x), as_array(i), as_array(y)])
        for _ in range(5):
            y.zero_()
            bound()
            np.testing.assert_array_equal(y.cpu().numpy(), scattered(x, i, y))


def test_a_scatter_is_captured_and_replayed_and_outlives_its_program(device):
    program, x, i, y = scatter(5000, 300)
    bound = program.bind([as_array(x), as_array(i), as_array(y)])
    del program
    gc.collect()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound()
    for _ in range(3):
        i.copy_(torch.randint(0, 300, (5000,)))
        y.zero_()
        graph.replay()
        np.testing.assert_array_equal(y.cpu().numpy(), scattered(x, i, y))


def test_a_check_of_indices_waits_and_is_not_captured(device):
    program, x, i, y = scatter(5000, 300, "error")
    bound = program.bind([as_array(x), as_array(i), as_array(y)])
    bound()
    np.testing.assert_array_equal(y.cpu().numpy(), scattered(x, i, y))
    i[4000], i[4500] = 300, -301
    y.zero_()
    with pytest.raises(IndexError, match="scatter: index 300 in i is out of range for an axis of size 300"):
        bound()
    assert not y.any()
    with pytest.raises(RuntimeError, match="a CUDA graph cannot wait for"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        y.fill_(1)
        bound()


def test_another_gpu():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    x = torch.rand(4, sum(UNEQUAL), device="cuda:1")
    outputs = [torch.zeros(4, n, device="cuda:1") for n in UNEQUAL]
    desc = dml.SplitOperatorDesc(f32(4, sum(UNEQUAL)), [f32(4, n) for n in UNEQUAL], 1)
    dml.Device("cuda:1").compile_operator(desc).bind([x], outputs).dispatch()
    check_split(x, outputs)
    with pytest.raises(dml.BindingError, match="InputTensor is on cuda:1, but the operator runs on cuda:0"):
        dml.Device("cuda:0").compile_operator(desc).bind([x], outputs)


def test_a_dispatch_runs_on_cupys_stream(device):
    cupy = pytest.importorskip("cupy")
    desc = dml.JoinOperatorDesc([f32(4), f32(4)], f32(8), 0)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x, y = cupy.zeros(4, cupy.float32), cupy.zeros(8, cupy.float32)
        bound = device.compile_operator(desc).bind([x, x], [y])
        torch.cuda._sleep(10**8)
        for value in (1, 2):
            x.fill(value)
            bound.dispatch()
        stream.synchronize()
        assert y.tolist() == [2] * 8


@needs_functions
def test_results_are_pytorchs_with_its_dtypes():
    x = torch.rand(6, 8, device="cuda").to(torch.bfloat16)
    parts = dml.split(x, [2, 1, 3])
    assert all(part.dtype is torch.bfloat16 and part.device == x.device for part in parts)
    assert torch.equal(dml.join(parts), x)
    assert torch.equal(dml.slice1(x, (0, 0), (6, 8), (-1, 1)), x.flip(0))
    assert torch.equal(dml.split_training(x.t(), [3, 5])[1], x.t()[3:])


@needs_functions
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_indices_of_every_type_can_be_errors(name):
    x = torch.rand(6, 8, device="cuda")
    good = torch.tensor([0, 5, 2]).to(getattr(torch, name)).cuda()
    assert torch.equal(dml.gather(x, good, out_of_range="error"), x[[0, 5, 2]])
    bad = torch.tensor([0, 99]).to(getattr(torch, name)).cuda()
    assert torch.equal(dml.gather(x, bad), x[[0, 5]])
    with pytest.raises(IndexError, match="index 99 in indices is out of range"):
        dml.gather(x, bad, out_of_range="error")


@needs_functions
def test_results_are_cupys_on_its_stream():
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.arange(24, dtype=cupy.float32).reshape(4, 6)
        parts = dml.split(x, [1, 2, 3], 1)
        joined = dml.join(parts, 1)
        stream.synchronize()
        assert all(isinstance(part, cupy.ndarray) for part in parts)
        cupy.testing.assert_array_equal(joined, x)


def test_arrays_of_the_host_are_refused(device):
    operator = device.compile_operator(dml.SplitOperatorDesc(f32(4), [f32(4)], 0))
    with pytest.raises(dml.BindingError, match="DML_SPLIT: InputTensor: a ndarray does not lie on a GPU"):
        operator.bind([np.zeros(4, np.float32)], [torch.zeros(4, device="cuda")])


@needs_functions
def test_indices_of_a_list_go_where_the_array_lies():
    x = torch.rand(4, 2, device="cuda")
    assert torch.equal(dml.gather(x, [3, -4, 99]), x[[3, 0, 3]])
    with pytest.raises(
        dml.BindingError, match="indices is a PyTorch tensor on cpu, but x is a PyTorch tensor on cuda:0"
    ):
        dml.gather(x, torch.tensor([0, 1]))


@pytest.fixture(scope="module")
def large():
    """More than 2³¹ bytes in rows of 257."""
    count = 2**31 + 12345
    if torch.cuda.mem_get_info()[0] < 12 * count:
        pytest.skip("needs 26 GB of free memory")
    torch.manual_seed(0)
    return torch.randint(0, 256, (count // 257, 257), dtype=torch.uint8, device="cuda")


def test_a_split_of_more_than_2_to_31_elements(large, device):
    sizes = [100, 57, 100]
    outputs = [torch.zeros(len(large), n, dtype=torch.uint8, device="cuda") for n in sizes]
    desc = dml.SplitOperatorDesc(tensor("UINT8", *large.shape), [tensor("UINT8", *y.shape) for y in outputs], 1)
    device.compile_operator(desc).bind([large], outputs).dispatch()
    check_split(large, outputs)


def test_a_slice_of_more_than_2_to_31_elements(large, device):
    kind = tensor("UINT8", *large.shape)
    backwards = torch.zeros_like(large)
    desc = dml.Slice1OperatorDesc(kind, kind, (0, 0), tuple(large.shape), (-1, -1))
    device.compile_operator(desc).bind([large], [backwards]).dispatch()
    for start in range(0, len(large), 2**20):
        end = min(start + 2**20, len(large))
        expected = large[len(large) - end : len(large) - start].flip(0, 1)
        assert torch.equal(backwards[start:end], expected)


def test_a_gather_from_more_than_2_to_31_elements(large, device):
    flat = large.reshape(-1)
    indices = torch.randint(-len(flat), len(flat), (10**6,), device="cuda")
    indices[:4] = torch.tensor([2**31 - 1, 2**31, len(flat) + 5, -(2**63)])
    output = torch.zeros(10**6, dtype=torch.uint8, device="cuda")
    desc = dml.GatherOperatorDesc(tensor("UINT8", len(flat)), tensor("INT64", 10**6), tensor("UINT8", 10**6), 0, 1)
    device.compile_operator(desc).bind([flat, indices], [output]).dispatch()
    wrapped = torch.where(indices < 0, indices + len(flat), indices).clamp(0, len(flat) - 1)
    assert torch.equal(output, flat[wrapped])
