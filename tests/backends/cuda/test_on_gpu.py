"""What only a GPU can show: streams, graphs, uploads, memory, and more than 2³¹ elements."""

import numpy as np
import pytest
from cuda_memory import ON_GPU

import anydml as dml

if not ON_GPU:
    pytest.skip("there is no GPU, or TRITON_INTERPRET is set", allow_module_level=True)

torch = pytest.importorskip("torch")
UNEQUAL = [500 + n % 7 for n in range(1024)]


def f32(*sizes):
    return dml.TensorDesc("FLOAT32", sizes)


def bound_split(device, sizes, rows=8):
    x = torch.rand(rows, sum(sizes), device="cuda")
    outputs = [torch.zeros(rows, n, device="cuda") for n in sizes]
    desc = dml.SplitOperatorDesc(f32(rows, sum(sizes)), [f32(rows, n) for n in sizes], 1)
    return device.compile_operator(desc).bind([x], outputs), x, outputs


def check_split(x, outputs):
    for output, part in zip(outputs, x.split([y.shape[1] for y in outputs], 1), strict=True):
        assert torch.equal(output, part)


@pytest.mark.parametrize("sizes", [[64] * 4, [64, 32, 16], UNEQUAL], ids=["equal", "unequal", "table"])
def test_a_dispatch_is_captured_and_replayed(device, sizes):
    bound, x, outputs = bound_split(device, sizes)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound.dispatch()
    for _ in range(3):
        x.copy_(torch.rand_like(x))
        graph.replay()
        check_split(x, outputs)


def test_a_dispatch_uploads_and_allocates_nothing(device):
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


def test_work_runs_on_the_current_stream(device):
    bound, x, outputs = bound_split(device, [64, 32, 16])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        x.fill_(7)
        bound.dispatch()
        assert not stream.query()
    stream.synchronize()
    check_split(x, outputs)


def test_results_are_pytorchs_with_its_dtypes():
    x = torch.rand(6, 8, device="cuda").to(torch.bfloat16)
    parts = dml.split(x, [2, 1, 3])
    assert all(part.dtype is torch.bfloat16 and part.device == x.device for part in parts)
    assert torch.equal(dml.join(parts), x)
    assert torch.equal(dml.slice1(x, (0, 0), (6, 8), (-1, 1)), x.flip(0))
    indices = torch.tensor([0, -1, 99], dtype=torch.int8, device="cuda")
    assert torch.equal(dml.gather(x, indices), x[[0, 5, 5]])
    with pytest.raises(IndexError, match="index 99 is out of range"):
        dml.gather(x, indices, out_of_range="error")
    assert torch.equal(dml.split_training(x.t(), [3, 5])[1], x.t()[3:])


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
    x = torch.zeros(4, 2, device="cuda")
    with pytest.raises(dml.BindingError, match="the arrays lie on cuda:0 and the host"):
        dml.gather(x, [0, 1])


def test_more_than_2_to_31_elements():
    count = 2**31 + 12345
    if torch.cuda.mem_get_info()[0] < 12 * count:
        pytest.skip("needs 26 GB of free memory")
    x = torch.arange(count // 257 * 257, device="cuda").to(torch.uint8).reshape(-1, 257)
    sizes = [100, 57, 100]
    for result, part in zip(dml.split_training(x, sizes, 1), x.split(sizes, 1), strict=True):
        assert torch.equal(result, part)
    del result
    backwards = dml.slice1(x, (0, 0), x.shape, (-1, -1))
    assert torch.equal(backwards[0], x[-1].flip(0))
    assert torch.equal(backwards[-1000:], x[:1000].flip(0, 1))
    assert torch.equal(backwards[len(x) // 2], x[len(x) - 1 - len(x) // 2].flip(0))
