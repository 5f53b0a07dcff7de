"""PyTorch's tensors: layouts, dtypes that NumPy lacks, lazy signs, autograd, and what is refused."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import anydml as dml

NO_NUMPY = [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32, torch.float8_e8m0fnu]


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", NO_NUMPY, ids=str)
def test_dtypes_that_numpy_lacks(dtype):
    raw = torch.randint(0, 256, (4, 6 * dtype.itemsize), dtype=torch.uint8)
    x = raw.view(dtype)
    cut = 2 * dtype.itemsize
    for left, right in (dml.split(x, [2, 4], 1), dml.split_training(x, [2, 4], 1)):
        assert left.dtype is right.dtype is dtype
        assert bits(left) == raw[:, :cut].contiguous().numpy().tobytes()
        assert bits(dml.join([left, right], 1)) == bits(x)
    out = torch.zeros(2, 6 * dtype.itemsize, dtype=torch.uint8).view(dtype)
    assert dml.gather(x, [3, -9], out_of_range="clamp", out=out) is out
    assert bits(out) == raw[[3, 0]].numpy().tobytes()
    transposed = x.T[1:]
    assert bits(dml.slice(transposed, (0, 1), (2, 3))) == bits(transposed[:2, 1:4])


def test_equal_bytes_are_not_equal_dtypes():
    x = torch.zeros(4, dtype=torch.uint8)
    one, other = x.view(torch.float8_e4m3fn), x.view(torch.float8_e5m2)
    with pytest.raises(dml.DescError, match=r"arrays\[1\] is float8_e5m2, but arrays\[0\] is float8_e4m3fn"):
        dml.join([one, other])
    with pytest.raises(dml.BindingError, match=r"out is torch.float8_e5m2, but the result is torch.float8_e4m3fn"):
        dml.join([one], out=other)


def test_any_strides():
    x = torch.arange(120.0).reshape(4, 5, 6).permute(2, 0, 1)[1::2]
    for result, expected in zip(dml.split(x, [1, 3], 1), torch.split(x, [1, 3], 1), strict=True):
        assert torch.equal(result, expected)
        assert result.is_contiguous()
    broad = torch.arange(3.0).expand(4, 3)
    assert torch.equal(dml.join([broad, broad], 1), torch.cat([broad, broad], 1))
    with pytest.raises(dml.BindingError, match="out has strides"):
        dml.join([torch.zeros(4, 3)], out=broad)


def test_lazy_signs_are_made_real():
    x = torch.tensor([1 + 2j, 3 - 4j, 5j])
    assert dml.slice1(x.conj(), [0], [3], [-1]).tolist() == [-5j, 3 + 4j, 1 - 2j]
    assert dml.split(x.conj().imag, 3)[0].tolist() == [-2]
    assert dml.join([x, x.conj()]).tolist() == [1 + 2j, 3 - 4j, 5j, 1 - 2j, 3 + 4j, -5j]
    with pytest.raises(dml.BindingError, match="out is a PyTorch tensor that is a lazy conjugate or negative"):
        dml.join([x], out=torch.zeros(3, dtype=x.dtype).conj())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_are_never_lost_in_silence(dtype):
    x = torch.zeros(4, dtype=dtype, requires_grad=True)
    for call in (lambda: dml.split(x, 2), lambda: dml.join([x * 2]), lambda: dml.join([x.detach()], out=x)):
        with pytest.raises(dml.BindingError, match=r"requires grad: use the functions of anydml.torch"):
            call()
    with torch.no_grad():
        assert not dml.split(x, 2)[0].requires_grad
    assert dml.split(x.detach(), 2)[0].tolist() == [0, 0]
    assert type(dml.split(torch.nn.Parameter(x.detach(), requires_grad=False), 2)[0]) is torch.Tensor


def test_values_are_numbers_or_tensors_of_one_that_need_no_gradient():
    x = torch.zeros(2, dtype=torch.bfloat16)
    assert dml.fill(x, torch.tensor(1.5, dtype=torch.bfloat16)).tolist() == [1.5, 1.5]
    with pytest.raises(dml.DescError, match=r"requires grad: pass its detach\(\), or a number"):
        dml.fill(x, torch.tensor(1.5, requires_grad=True))
    with torch.no_grad():
        assert dml.fill(x, torch.tensor(1.5, requires_grad=True)).tolist() == [1.5, 1.5]
    with pytest.raises(dml.DescError, match="has 1 dimension: pass one element of it"):
        dml.pad(x, [1, 1], value=torch.ones(1))


def test_autograd_sees_what_out_overwrites():
    x = torch.ones(3, requires_grad=True)
    factor = torch.full((3,), 2.0)
    product = (x * factor).sum()
    dml.join([torch.zeros(3)], out=factor)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():
        out = torch.zeros(3)
        assert dml.join([torch.ones(3)], out=out).tolist() == [1, 1, 1]


RESULTS = {
    "split": lambda x: dml.split(x, [1, 3])[1],
    "split_training": lambda x: dml.split_training(x, [1, 3])[1],
    "join": lambda x: dml.join([x, x]),
    "concat_training": lambda x: dml.concat_training([x, x])[0],
    "lengths": lambda x: dml.concat_training([x, x])[1],
    "slice": lambda x: dml.slice(x, [1], [2]),
    "slice1": lambda x: dml.slice1(x, [0], [4], [-1]),
    "gather": lambda x: dml.gather(x, torch.tensor([2, 1])),
    "an empty slice": lambda x: dml.slice(x, [1], [0]),
    "out": lambda x: dml.join([x], out=torch.empty_like(x)),
}


@pytest.mark.parametrize("call", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_what_a_function_saw_or_made_can_be_resized(call, dtype):
    x = torch.arange(4).to(dtype)
    result = call(x)
    elements = result.tolist()
    assert result.resize_(100)[: len(elements)].tolist() == elements
    assert x.resize_(50)[:4].tolist() == torch.arange(4).to(dtype).tolist()
    for tensor in (x, result):
        # As FSDP does, which gives memory back between uses.
        tensor.untyped_storage().resize_(0)


def test_indices_and_sizes_can_be_resized():
    indices, sizes = torch.tensor([1, 0]), torch.tensor([1, 3])
    dml.gather(torch.arange(4.0), indices)
    dml.split_training(torch.arange(4.0), sizes)
    assert indices.resize_(9)[:2].tolist() == [1, 0]
    assert sizes.resize_(9)[:2].tolist() == [1, 3]


def test_results_outlive_what_they_were_made_of():
    parts = dml.split(torch.arange(4.0), [1, 3])
    junk = [torch.zeros(3) for _ in range(100)]
    assert parts[1].tolist() == [1, 2, 3]
    assert len({part.untyped_storage().data_ptr() for part in (*parts, *junk)}) == 102


@pytest.mark.parametrize("take", [lambda x: x, lambda x: x[1:], lambda x: x.view(2, 4).T], ids=["all", "end", "turned"])
def test_a_storage_that_lost_its_memory_is_refused(take):
    x = torch.arange(8.0)
    view = take(x)
    x.untyped_storage().resize_(0)
    everything = [0] * view.ndim, list(view.shape)
    with pytest.raises(dml.BindingError, match="slice: x is a PyTorch tensor whose storage was freed"):
        dml.slice(view, *everything)
    with pytest.raises(dml.BindingError, match="slice: out is a PyTorch tensor whose storage was freed"):
        dml.slice(torch.zeros(view.shape), *everything, out=view)
    x.untyped_storage().resize_(32)
    x.copy_(torch.arange(8.0))
    assert torch.equal(dml.slice(view, *everything), view)


def test_inside_functionalize():
    with pytest.raises(dml.BindingError, match=r"inside torch.func .* use the functions of anydml.torch"):
        torch.func.functionalize(lambda x: dml.split(x, 2))(torch.zeros(4))


def test_copies_on_write_are_read_and_written():
    x = torch.arange(4.0)
    lazy = torch._lazy_clone(x)
    dml.join([torch.zeros(4)], out=lazy)
    assert (x.tolist(), lazy.tolist()) == ([0, 1, 2, 3], [0, 0, 0, 0])
    assert dml.split(torch._lazy_clone(x), 2)[1].tolist() == [2, 3]


def test_subclasses_are_read_as_tensors():
    class Named(torch.Tensor):
        pass

    x = torch.arange(4.0).as_subclass(Named)
    for tensor in (x, torch.nn.Parameter(torch.arange(4.0), requires_grad=False)):
        parts = dml.split(tensor, 2)
        assert type(parts[0]) is torch.Tensor
        assert parts[1].tolist() == [2, 3]


def test_the_default_device_changes_nothing():
    x = torch.arange(4.0)
    with torch.device("meta"):
        assert dml.split(x, 2)[1].tolist() == [2, 3]
        assert dml.slice(x, [0], [0]).device.type == "cpu"


def fake(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(x)


class Distributed(torch.Tensor):
    """As DTensor, whose import takes seconds: shards in other memory, which `full_tensor` collects."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape)

    @classmethod
    def __torch_dispatch__(cls, operator, types, arguments=(), keywords=None):
        raise NotImplementedError

    def full_tensor(self):
        raise NotImplementedError


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make, message",
    [
        (lambda x: x.to_sparse(), "of layout torch.sparse_coo: pass x.to_dense()"),
        (lambda x: x.reshape(2, 2).to_sparse_csr(), "of layout torch.sparse_csr: pass x.to_dense()"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "that is quantized: pass x.int_repr()"),
        (lambda x: x.to("meta"), "on meta: arrays are moved on cpu and cuda"),
        (lambda x: torch.nested.nested_tensor([x, x[:1]]), "that is nested: pass its parts"),
        (Distributed, r"without memory \(Distributed\): pass x.to_local\(\)"),
        (
            lambda x: torch.masked.masked_tensor(x, x > 1),
            r"without memory \(MaskedTensor\): pass x.get_data\(\), and x.get_mask\(\) in a separate call",
        ),
        (fake, r"without memory \(.*\): inside torch.func and torch.compile use the functions of anydml.torch"),
    ],
    ids=["sparse", "csr", "quantized", "meta", "nested", "distributed", "masked", "fake"],
)
def test_tensors_without_plain_memory(make, message):
    x = make(torch.arange(4.0))
    with pytest.raises(dml.BindingError, match=f"slice1: x is a PyTorch tensor {message}") as caught:
        dml.slice1(x, [0], [1], [1])
    assert (caught.value.operator, caught.value.field) == ("slice1", "x")
    assert "\n" not in str(caught.value)


def test_inside_vmap():
    with pytest.raises(dml.BindingError, match=r"inside torch.func .* use the functions of anydml.torch"):
        torch.vmap(lambda row: dml.split(row, 2)[0])(torch.zeros(3, 4))


def test_sizes_and_indices_may_be_numpys_beside_tensors():
    x = torch.arange(6.0)
    assert [part.tolist() for part in dml.split_training(x, np.array([2, 4]))] == [[0, 1], [2, 3, 4, 5]]
    assert [part.tolist() for part in dml.split_training(x, torch.tensor([6, 0], dtype=torch.uint8))] == [
        [*range(6)],
        [],
    ]
    assert dml.split(x, torch.tensor([1, 5]))[0].tolist() == [0]
    for indices in (np.array([5, -7]), np.array([5, -7], ">i2"), [5, -7], torch.tensor([5, -7], dtype=torch.int8)):
        assert dml.gather(x, indices, out_of_range="clamp").tolist() == [5, 0]
    assert dml.gather(x, np.uint64(2**64 - 1), out_of_range="clamp").item() == 5
    with pytest.raises(dml.DescError, match="indices are bool"):
        dml.gather(x, torch.tensor([True]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [65, 100])
def test_more_dimensions_than_arrays_have(count, dtype):
    """PyTorch makes such tensors, and NumPy's arrays end at 64."""
    x = torch.zeros((1,) * count, dtype=dtype)
    indices = torch.zeros((1,) * count, dtype=torch.int64)
    few = torch.zeros(3, dtype=dtype)
    for name, field, work in (
        ("split", "x", lambda: dml.split(x, 1)),
        ("split", r"out\[0\]", lambda: dml.split(few, [3], out=[x])),
        ("split_training", "x", lambda: dml.split_training(x, [1])),
        ("split_training", "split", lambda: dml.split_training(few, indices)),
        ("join", r"arrays\[1\]", lambda: dml.join([few, x])),
        ("join", "out", lambda: dml.join([few, few], out=x)),
        ("concat_training", r"arrays\[0\]", lambda: dml.concat_training([x])),
        ("slice", "x", lambda: dml.slice(x, [0] * count, [1] * count)),
        ("slice1", "x", lambda: dml.slice1(x, [0] * count, [1] * count, [1] * count)),
        ("gather", "x", lambda: dml.gather(x, [0])),
        ("gather", "indices", lambda: dml.gather(few, indices)),
        ("gather", "out", lambda: dml.gather(few, [0], out=x)),
    ):
        with pytest.raises(dml.DescError, match=f"{name}: {field} has {count} dimensions, but arrays have at most 64"):
            work()
    with pytest.raises(dml.DescError, match="gather: the result has 79 dimensions, but arrays have at most 64"):
        dml.gather(x.reshape((1,) * 40), indices.reshape((1,) * 40))


@pytest.mark.parametrize("shape", [(3, 4), ()], ids=str)
def test_results_without_memory_are_refused(shape):
    x = torch.ones(shape)
    with pytest.raises(dml.BindingError, match=r"whose new tensors have no memory.*anydml\.torch"):
        torch.func.grad(lambda y: (y * dml.copy(x)).sum())(torch.ones(shape))


@pytest.mark.parametrize("shape", [(3, 4), ()], ids=str)
def test_results_under_a_fake_mode_are_fake(shape):
    with FakeTensorMode(allow_non_fake_inputs=True):
        copied = dml.copy(torch.ones(shape))
    assert isinstance(copied, FakeTensor)
    assert copied.shape == shape


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("tensor", "what"),
    [
        (lambda: torch.eye(2).to_sparse(), "of layout torch.sparse_coo: pass x.to_dense()"),
        (lambda: torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8), "that is quantized"),
        (lambda: torch.zeros(2, device="meta"), "on meta"),
    ],
    ids=["sparse", "quantized", "meta"],
)
def test_coordinates_of_tensors_without_elements_in_strides_are_refused(tensor, what):
    with pytest.raises(dml.BindingError, match="nonzero_coordinates: x is a PyTorch tensor") as caught:
        dml.nonzero_coordinates(tensor())
    assert what in str(caught.value)


NAMES = (
    *("bool", "int8", "uint8", "int32", "int64", "uint16", "uint64", "float16", "float32", "float64", "bfloat16"),
    *("float8_e4m3fn", "float8_e5m2", "complex32", "complex64"),
)


class OwnTensor(torch.Tensor):
    pass


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", NAMES)
def test_coordinates_of_tensors_are_new_contiguous_and_the_same_for_every_dtype_and_layout(name):
    numbers = torch.randint(-1, 2, (5, 6, 4), generator=torch.Generator().manual_seed(3)).abs().float()
    numbers = numbers if name.startswith(("u", "b")) else numbers * torch.tensor([1.0, -1.0]).repeat(2)
    x = numbers.to(getattr(torch, name))
    for view, plain in (
        (x, numbers),
        (x.permute(2, 0, 1)[1:, ::2], numbers.permute(2, 0, 1)[1:, ::2]),
        (x[:, :1].expand(5, 7, 4), numbers[:, :1].expand(5, 7, 4)),
        (x[:0], numbers[:0]),
        (x[0, 0, 0], numbers[0, 0, 0]),
        (x.as_subclass(OwnTensor), numbers),
    ):
        found = dml.nonzero_coordinates(view)
        assert type(found) is torch.Tensor
        assert found.is_contiguous()
        assert torch.equal(found, plain.nonzero())


def test_coordinates_have_no_gradients_so_that_what_requires_them_is_searched():
    x = torch.tensor([[0.0, 2.0], [3.0, 0.0]], requires_grad=True)
    assert dml.nonzero_coordinates(x).tolist() == [[0, 1], [1, 0]]
    seen = []
    torch.func.grad(lambda y: (seen.append(dml.nonzero_coordinates(y)), y.sum())[1])(x.detach())
    assert seen[0].tolist() == [[0, 1], [1, 0]]
