"""Arrays on a device: how they are seen, what is refused, and the public functions on them.

`Lent` is host memory that says it lies on a GPU; the interpreter, which reads addresses, cannot tell.
"""

import numpy as np
import pytest
from cuda_memory import ON_GPU, needs_functions

import anydml as dml
from anydml.engines.cuda.engine import as_operand
from anydml.memory.device_array import DeviceArray, as_array, device_array, is_on_device

interpreted = pytest.mark.skipif(ON_GPU, reason="pretends that host memory is a GPU's")


class Lent:
    """An array with DLPack's and CUDA's interfaces, as CuPy's have them."""

    def __init__(self, array, gpu=0):
        self.array, self.gpu = array, gpu

    def __dlpack_device__(self):
        return (2, self.gpu)

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__array_interface__, "version": 3}


class Bare:
    """An array with CUDA's interface only, as Numba's have it."""

    def __init__(self, array):
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


@pytest.mark.parametrize("wrap", [Lent, Bare])
def test_a_device_array_shows_its_address_shape_strides_and_dtype(wrap):
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[::-1, ::2]
    seen = as_array(wrap(array))
    assert is_on_device(wrap(array))
    assert type(seen) is DeviceArray
    assert (seen.shape, seen.strides, seen.dtype) == (array.shape, array.strides, array.dtype)
    assert seen.__array_interface__["data"][0] == array.__array_interface__["data"][0]
    assert seen[1:].owner is seen.owner
    assert device_array(seen) is seen


def test_a_device_array_is_never_printed():
    assert repr(as_array(Lent(np.zeros((2, 3), np.float32), 1))) == "DeviceArray(float32, (2, 3), cuda:1)"
    with pytest.raises(TypeError):
        as_array(Lent(np.zeros(2))) + 1


def test_arrays_of_the_host_are_themselves():
    x = np.arange(3)
    assert as_array(x) is x
    assert not is_on_device(x)
    assert not is_on_device([1, 2])
    assert not is_on_device(3)
    with pytest.raises(dml.BindingError, match="a ndarray does not lie on a GPU: pass PyTorch or CuPy arrays"):
        device_array(x)


@needs_functions
def test_pytorchs_tensors_of_the_host_stay_there():
    torch = pytest.importorskip("torch")
    assert not is_on_device(torch.zeros(3))
    assert dml.split(torch.arange(4), 2)[0].device.type == "cpu"


def on_gpu(tensor):
    """A tensor of the host that says it lies on a GPU."""

    class OnGpu(type(tensor)):
        def __dlpack_device__(self):
            return (2, 0)

    return tensor.as_subclass(OnGpu)


def test_tensors_of_every_dtype_are_seen_byte_by_byte():
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")  # It teaches NumPy names that have no type string.
    seen = set()
    for dtype in {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}:
        try:
            tensor = torch.arange(3 * dtype.itemsize, dtype=torch.uint8).view(dtype)
        except RuntimeError:  # quantized, or less than a byte
            continue
        view = device_array(on_gpu(tensor)).view(np.ndarray)
        assert (view.shape, view.itemsize) == ((3,), dtype.itemsize)
        assert view.tobytes() == bytes(range(3 * dtype.itemsize))
        seen.add(str(dtype).removeprefix("torch."))
    assert {"bool", "float8_e5m2", "bfloat16", "complex32", "uint64", "complex128"} <= seen


def test_tensors_that_are_yet_to_be_negated_are_refused():
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3, dtype=torch.complex64).conj()
    for lazy in (tensor, tensor.imag):
        with pytest.raises(dml.BindingError, match=r"pass tensor.resolve_neg\(\).resolve_conj\(\)"):
            device_array(on_gpu(lazy))


def test_a_gpu_takes_only_its_own_arrays():
    with pytest.raises(dml.BindingError, match="DML_SPLIT: InputTensor: a ndarray does not lie on a GPU") as caught:
        as_operand("DML_SPLIT", "InputTensor", np.zeros(3), 0)
    assert (caught.value.operator, caught.value.field) == ("DML_SPLIT", "InputTensor")
    with pytest.raises(dml.BindingError, match="InputTensor is on cuda:1, but the operator runs on cuda:0"):
        as_operand("DML_SPLIT", "InputTensor", Lent(np.zeros(3), 1), 0)
    assert as_operand("DML_SPLIT", "InputTensor", Lent(np.zeros(3)), 0).shape == (3,)


@interpreted
def test_binding_checks_device_arrays_like_any_others(device):
    f32 = dml.TensorDesc("FLOAT32", [4])
    operator = device.compile_operator(dml.JoinOperatorDesc([f32, f32], dml.TensorDesc("FLOAT32", [8]), 0))
    x, y = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    operator.bind([Lent(x), Bare(x)], [Lent(y)]).dispatch()
    assert y.tolist() == [0, 1, 2, 3] * 2
    for inputs, output, message in (
        ([Lent(x), Lent(x[:3])], Lent(y), r"InputTensors\[1\] is bound to 12 bytes, but the tensor needs 16"),
        ([Lent(x), Lent(x.astype(np.int32))], Lent(y), r"InputTensors\[1\] is bound to int32"),
        ([Lent(x), Lent(y[:4])], Lent(y), r"OutputTensor overlaps InputTensors\[1\]"),
        ([Lent(x)], Lent(y), "inputs has 1 buffer for 2 tensors"),
    ):
        with pytest.raises(dml.BindingError, match=message):
            operator.bind(inputs, [output])


@interpreted
def test_sizes_and_lengths_stay_on_the_host(device):
    f32, i64 = dml.TensorDesc("FLOAT32", [2]), dml.TensorDesc("INT64", [2])
    whole = dml.TensorDesc("FLOAT32", [4])
    x, parts, lengths = np.arange(4, dtype=np.float32), np.zeros((2, 2), np.float32), np.zeros(2, np.int64)
    split = device.compile_operator(dml.SplitTrainingOperatorDesc(whole, i64, [f32, f32]))
    split.bind([Lent(x), np.array([2, 2])], [Lent(part) for part in parts]).dispatch()
    assert parts.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(dml.BindingError, match=r"SplitTensor holds \[1, 3\], but OutputTensors have sizes \[2, 2\]"):
        split.bind([Lent(x), np.array([1, 3])], [Lent(part) for part in parts])
    joined = np.zeros(4, np.float32)
    concat = device.compile_operator(dml.ConcatTrainingOperatorDesc([f32, f32], whole, i64))
    concat.bind([Lent(part) for part in parts], [Lent(joined), lengths]).dispatch()
    assert joined.tolist() == [0, 1, 2, 3]
    assert lengths.tolist() == [2, 2]
    assert "on the host: " in str(concat)


@interpreted
@needs_functions
def test_the_public_functions_write_device_arrays():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    out = [np.zeros((4, n), np.float32) for n in (1, 2, 3)]
    lent = [Lent(part) for part in out]
    assert all(a is b for a, b in zip(dml.split(Lent(x), [1, 2, 3], 1, out=lent), lent, strict=True))
    np.testing.assert_array_equal(np.concatenate(out, 1), x)
    joined = np.zeros_like(x)
    dml.join(lent, 1, out=Lent(joined))
    np.testing.assert_array_equal(joined, x)
    _, lengths = dml.concat_training(lent, -1, out=Lent(joined))
    assert lengths.tolist() == [1, 2, 3]
    backwards = np.zeros_like(x)
    dml.slice1(Lent(x), (0, 0), (4, 6), (1, -1), out=Lent(backwards))
    np.testing.assert_array_equal(backwards, x[:, ::-1])
    picked = np.zeros((4, 2), np.float32)
    dml.gather(Lent(x), Lent(np.array([5, -6])), 1, out=Lent(picked))
    np.testing.assert_array_equal(picked, x[:, [5, 0]])


@needs_functions
def test_device_arrays_keep_the_functions_rules():
    x = Lent(np.zeros((4, 6), np.float32))
    for call, message in (
        (lambda: dml.split(x, [1, 2], 1), "add up to 3"),
        (lambda: dml.split(x, 2, 5), "axis is 5"),
        (lambda: dml.slice(x, (0, 0), (4, 7), (1, 1)), r"sizes\[1\]"),
        (lambda: dml.slice1(x, (0, 0), (4, 6), (1, 0)), r"window_strides\[1\] is 0"),
        (lambda: dml.gather(x, Lent(np.zeros(2, np.float32)), 1), "indices are float32"),
        (lambda: dml.join([x, Lent(np.zeros((4, 6), np.int8))]), r"arrays\[1\] is int8"),
    ):
        with pytest.raises(dml.DescError, match=message):
            call()


@interpreted
def test_the_interpreter_refuses_a_real_gpu(device):
    class Tensor(Lent):
        __module__ = "cupy"

    f32 = dml.TensorDesc("FLOAT32", [4])
    operator = device.compile_operator(dml.JoinOperatorDesc([f32], f32, 0))
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(
        dml.BindingError, match=r"DML_JOIN: InputTensors\[0\] lies on a GPU, but TRITON_INTERPRET is set"
    ):
        operator.bind([Tensor(x)], [y])
