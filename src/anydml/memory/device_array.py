"""`DeviceArray`: an array of any library on a GPU, as all code but the GPU engine sees it.

The checks of descs, bindings and functions need an array's address, shape, strides and dtype, but not its elements. A
`DeviceArray` is a NumPy array over device addresses, which provides these.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, NoReturn

import numpy as np

from anydml.errors import BindingError
from anydml.memory.host import array_at
from anydml.text import a

_GPU_DEVICE_TYPES = (2, 10, 13)
"""DLPack's numbers for CUDA, ROCm and CUDA managed memory."""


class DeviceArray(np.ndarray[Any, Any]):
    """A NumPy array over memory of a GPU. Its elements must never be read or written through it.

    Attributes:
        owner: the array that it represents, kept alive.
        gpu: number of the GPU.
    """

    owner: Any
    gpu: int
    __array_ufunc__ = None  # type: ignore[assignment]  # makes NumPy refuse arithmetic

    def __array_finalize__(self, base: Any) -> None:
        self.owner = getattr(base, "owner", None)
        self.gpu = getattr(base, "gpu", 0)

    def __reduce_ex__(self, protocol: Any = None, /) -> NoReturn:
        message = "a DeviceArray has only the addresses of an array on a GPU, so it can be neither pickled nor copied"
        raise TypeError(f"{message}; copy its owner")

    __copy__ = __deepcopy__ = __reduce_ex__

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}, {self.shape}, cuda:{self.gpu})"

    __str__ = __repr__


def as_array(array: Any) -> np.ndarray[Any, Any]:
    """Convert to a NumPy array, or to a `DeviceArray` if the array is on a GPU."""
    if type(array) is np.ndarray:
        return array
    return device_array(array) if is_on_device(array) else np.asarray(array)


def is_on_device(array: Any) -> bool:
    """Whether an array is on a GPU. Imports and copies nothing."""
    if isinstance(array, (np.ndarray, np.generic, list, tuple, int, float)):
        return isinstance(array, DeviceArray)
    if hasattr(array, "__dlpack_device__"):
        return dlpack_device(array)[0] in _GPU_DEVICE_TYPES
    return hasattr(array, "__cuda_array_interface__")


def dlpack_device(array: Any) -> tuple[int, int]:
    """Return DLPack's numbers of an array's kind of device, and of the device.

    Raises:
        BindingError: the array returns anything else.
    """
    pair = array.__dlpack_device__()
    try:
        device_type, device_index = pair
        return int(device_type), int(device_index)
    except (TypeError, ValueError):
        rule = "__dlpack_device__() must return two integers"
        message = f"an array is {a(type(array).__name__)} whose __dlpack_device__() returns {pair!r:.40}"
        raise BindingError(message, None, None, rule) from None


def device_array(array: Any) -> DeviceArray:
    """Return a `DeviceArray` for an array of PyTorch, CuPy, or with DLPack or ``__cuda_array_interface__``.

    Raises:
        BindingError: the array is not on a GPU.
    """
    if isinstance(array, DeviceArray):
        return array
    if not is_on_device(array):
        message = f"a {type(array).__name__} does not lie on a GPU"
        raise BindingError(f"{message}: pass PyTorch or CuPy arrays, or any with DLPack", None, None, message)
    device_index = dlpack_device(array)[1] if hasattr(array, "__dlpack_device__") else 0
    view = array_at(*memory_of(array)).view(DeviceArray)
    view.owner = array
    view.gpu = device_index
    return view


def is_tensor(array: Any) -> bool:
    """Whether an array is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def as_tensor(owner: Any, gpu: int) -> Any:
    """Return a PyTorch tensor over the memory of an array on a GPU."""
    if is_tensor(owner):
        return owner
    import torch

    return torch.from_dlpack(owner) if hasattr(owner, "__dlpack__") else torch.as_tensor(owner, device=f"cuda:{gpu}")


def package_of(array: Any) -> str:
    """Return the name of the package that defines an array's type."""
    return type(array).__module__.partition(".")[0]


def is_cupy(owner: Any) -> bool:
    """Whether an array is a CuPy array."""
    return package_of(owner) == "cupy"


def integers(indices: DeviceArray) -> Any:
    """Convert indices of any integer type to INT64: a new CuPy array for a CuPy array, else a PyTorch tensor."""
    owner: Any = indices.owner
    return owner.astype("int64") if is_cupy(owner) else as_tensor(owner, indices.gpu).long()


def upload_indices(indices: np.ndarray[Any, Any], like: DeviceArray) -> Any:
    """Copy integers from host memory to an array's GPU: a CuPy array for a CuPy array, else a PyTorch tensor."""
    if is_cupy(like.owner):
        import cupy

        with cupy.cuda.Device(like.gpu):
            return cupy.asarray(indices)
    import torch

    return torch.from_numpy(indices).to(f"cuda:{like.gpu}")


def memory_of(array: Any) -> tuple[int, Any, tuple[int, ...], np.dtype[Any], tuple[int, ...] | None]:
    """Return the arguments of `array_at` for a tensor, or for an array on a GPU."""
    # PyTorch's own interface refuses tensors that require gradients, and dtypes that NumPy lacks.
    if not is_tensor(array) and hasattr(array, "__cuda_array_interface__"):
        interface = array.__cuda_array_interface__
        dtype = np.dtype(interface["typestr"])
        return interface["data"][0], array, interface["shape"], dtype, interface.get("strides")
    tensor = as_tensor(array, 0)
    if tensor.is_neg() or tensor.is_conj():
        message = "a tensor that is a lazy conjugate or negative"
        raise BindingError(f"{message}: pass tensor.resolve_neg().resolve_conj()", None, None, message)
    size = tensor.element_size()
    strides = None if tensor.is_contiguous() else tuple([stride * size for stride in tensor.stride()])
    return tensor.data_ptr(), tensor, tuple(tensor.shape), numpy_dtype(tensor.dtype), strides


@cache
def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return PyTorch's dtype from NumPy, or that of the same name and size from ml_dtypes, or plain bytes."""
    name = str(dtype).removeprefix("torch.")
    try:
        numpy_type: np.dtype[Any] = np.dtype(name)
        if numpy_type.isbuiltin == 1:
            return numpy_type
    except TypeError:
        pass
    import ml_dtypes

    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name, np.void))
    return extended if extended.itemsize == dtype.itemsize else np.dtype((np.void, dtype.itemsize))
