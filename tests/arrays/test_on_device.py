"""Arrays on a GPU, by pretending: host memory that says it lies there, moved by Triton's interpreter.

A pretended CuPy stands for the real one, which is asked for the same few names.
"""

import os
import subprocess
import sys
import types

import numpy as np
import pytest
import torch

import anydml as dml

if torch.cuda.is_available():
    pytest.skip("host memory cannot pretend where there is a GPU", allow_module_level=True)
os.environ.setdefault("TRITON_INTERPRET", "1")

from anydml.engines.cuda.available import is_interpreted

pytestmark = pytest.mark.skipif(not is_interpreted(), reason="the kernels are compiled, not interpreted")


class Lent:
    """An array with DLPack's word on its device, and CUDA's interface."""

    def __init__(self, array, gpu=0):
        self.array, self.gpu = array, gpu
        self.dtype = array.dtype

    def __dlpack_device__(self):
        return (2, self.gpu)

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__array_interface__, "version": 3}


@pytest.fixture
def cupy(monkeypatch):
    """A module that looks like CuPy, with host memory."""
    module = types.ModuleType("cupy")

    class ndarray(Lent):  # its name there
        __module__ = "cupy"

        @property
        def device(self):
            return types.SimpleNamespace(id=self.gpu)

        def __getitem__(self, key):
            return ndarray(self.array[key])

        def reshape(self, shape):
            return ndarray(self.array.reshape(shape))

        def astype(self, dtype):
            return ndarray(self.array.astype(dtype))

        def min(self):
            return self.array.min()

        def max(self):
            return self.array.max()

    class Device:
        def __init__(self, number):
            self.number = number

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    module.ndarray = ndarray
    module.asarray = lambda array: ndarray(np.asarray(array))
    module.empty = lambda count, dtype: ndarray(np.empty(count, dtype))
    module.cuda = types.SimpleNamespace(Device=Device)
    monkeypatch.setitem(sys.modules, "cupy", module)
    # It refuses real arrays of CuPy's, whose addresses the host does not have.
    for name in ("engine", "arrays"):
        monkeypatch.setattr(f"anydml.engines.cuda.{name}.check_interpretable", lambda *arguments: None)
    return module


def test_cupys_arrays_give_cupys_arrays(cupy):
    raw = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = cupy.asarray(raw)
    results = [
        *zip(dml.split(x, [1, 2, 3], 1), np.split(raw, [1, 3], 1), strict=True),
        *zip(dml.split_training(x, np.array([1, 3])), np.split(raw, [1]), strict=True),
        (dml.join([x, x], 1), np.concatenate([raw, raw], 1)),
        (dml.concat_training([x, x])[0], np.concatenate([raw, raw])),
        (dml.slice(x, (0, 1), (2, 3), (2, 2)), raw[::2, 1::2]),
        (dml.slice1(x, (0, 0), (4, 6), (-1, -2)), raw[::-1, ::-2]),
        (dml.gather(x, cupy.asarray(np.array([5, -7, 2])), 1, out_of_range="clamp"), raw[:, [5, 0, 2]]),
        (dml.gather(x, [3, -9], out_of_range="clamp"), raw[[3, 0]]),
        (dml.gather(x, np.array([[1], [99]], np.uint8), out_of_range="clamp"), raw[[[1], [3]]]),
    ]
    for result, expected in results:
        assert type(result) is cupy.ndarray
        np.testing.assert_array_equal(result.array, expected)
    lengths = dml.concat_training([x, x])[1]
    assert type(lengths) is np.ndarray
    assert lengths.tolist() == [4, 4]


def test_cupys_out_is_written_and_given_back(cupy):
    x, out = cupy.asarray(np.arange(6.0)), cupy.asarray(np.zeros(6))
    assert dml.slice1(x, [0], [6], [-1], out=out) is out
    assert out.array.tolist() == [5, 4, 3, 2, 1, 0]
    with pytest.raises(
        dml.BindingError, match="join: out is a NumPy array or list, but x is an array of cupy on cuda:0"
    ):
        dml.join([x], out=np.zeros(6))
    with pytest.raises(dml.BindingError, match="join: out is float32, but the result is float64"):
        dml.join([x], out=cupy.asarray(np.zeros(6, np.float32)))


def test_cupys_bad_indices_can_be_errors(cupy):
    with pytest.raises(IndexError, match="gather: index 6 in indices is out of range"):
        dml.gather(cupy.asarray(np.arange(6.0)), cupy.asarray(np.array([0, 6])))


def test_fused_functions(cupy):
    def function(x, i):
        parts = np.split(np.pad(x, ((0, 0), (1, 1)), constant_values=7), [2], axis=1)
        joined, lengths = dml.concat_training([x, x[:1]])
        return {
            "parts": parts,
            "rows": x[i],
            "i": np.stack([i, i]),
            "joined": (joined.T, lengths),
            "known": x[[2, 0, 3, 1, 0]],
        }

    raw, indices = np.arange(24, dtype=np.float32).reshape(4, 6), np.array([3, -4, 1])
    fused = dml.fuse(function)
    expected = function(raw, indices)
    for _ in range(2):
        results = fused(cupy.asarray(raw), cupy.asarray(indices))
        for name in ("rows", "i", "known"):
            assert type(results[name]) is cupy.ndarray
            np.testing.assert_array_equal(results[name].array, expected[name])
        for one, other in zip(
            (*results["parts"], results["joined"][0]), (*expected["parts"], expected["joined"][0]), strict=True
        ):
            np.testing.assert_array_equal(one.array, other)
        assert results["joined"][1].tolist() == [4, 1]
    out = cupy.asarray(np.zeros((3, 6), np.float32))
    picked = dml.fuse(lambda x, i: x[i])
    assert picked(cupy.asarray(raw), cupy.asarray(indices), out=out) is out
    np.testing.assert_array_equal(out.array, raw[indices])
    with pytest.raises(IndexError, match="index 4 in i is out of range for an axis of size 4"):
        picked(cupy.asarray(raw), cupy.asarray(np.array([4, 0, 0])), out=out)
    np.testing.assert_array_equal(out.array, raw[indices])
    stored = dml.fuse(lambda a, b, i: np.concatenate([a, b])[i])
    np.testing.assert_array_equal(
        stored(*map(cupy.asarray, (raw, raw, indices))).array, np.concatenate([raw, raw])[indices]
    )


def test_devices_are_not_mixed(cupy):
    near, far, host = Lent(np.arange(4.0)), Lent(np.arange(4.0), 1), np.arange(4.0)
    for call, message in (
        (lambda: dml.join([near, far]), r"arrays\[1\] is an array of .* on cuda:1, but arrays\[0\] is .* on cuda:0"),
        (lambda: dml.join([host, near]), r"arrays\[1\] is an array of .* on cuda:0, but arrays\[0\] is a NumPy array"),
        (lambda: dml.join([near, host]), r"arrays\[1\] is a NumPy array or list, but arrays\[0\] is an array of"),
        (lambda: dml.join([near], out=far), r"out is an array of .* on cuda:1, but x is an array of .* on cuda:0"),
        (lambda: dml.split(near, 1, out=[far]), r"out\[0\] is an array of .* on cuda:1"),
        (lambda: dml.gather(host, Lent(np.arange(2))), r"indices is an array of .* on cuda:0, but x is a NumPy array"),
        (lambda: dml.gather(near, torch.tensor([1])), "indices is a PyTorch tensor on cpu, but x is an array of"),
        (
            lambda: dml.join([cupy.asarray(host), near]),
            r"arrays\[1\] is an array of .*, but arrays\[0\] is an array of cupy",
        ),
    ):
        with pytest.raises(dml.BindingError, match=message):
            call()


def test_sizes_that_are_data_lie_on_the_host():
    x = Lent(np.arange(4.0))
    with pytest.raises(
        dml.BindingError, match=r"split_training: split is an array of .* on cuda:0, but its values are"
    ):
        dml.split_training(x, Lent(np.array([1, 3])), out=[Lent(np.zeros(1)), Lent(np.zeros(3))])
    out = [Lent(np.zeros(1)), Lent(np.zeros(3))]
    for split in ([1, 3], np.array([1, 3]), torch.tensor([1, 3])):
        dml.split_training(x, split, out=out)
        assert [part.array.tolist() for part in out] == [[0], [1, 2, 3]]


LENT = """
import numpy as np
import anydml as dml


class Lent:
    def __init__(self, array):
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


try:
    dml.join([Lent(np.arange(4.0))], out=Lent(np.zeros(4)))
except ValueError as error:
    print(error)
"""


def test_without_a_gpu_the_error_says_what_is_missing():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    command = [sys.executable, "-c", LENT]
    (line,) = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout.splitlines()
    assert "needs a GPU that PyTorch can reach" in line
