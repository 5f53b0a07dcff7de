"""Arrays on a GPU, whoever made them: what the checks see of them, and the memory and streams of their library.

The checks of `binding.py` ask an array for its address, shape, strides and dtype, and never read it. So a device array
is shown to them as a NumPy array over the device's addresses: to be looked at, not into.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.errors import BindingError

Array = np.ndarray[Any, Any]

_CUDA_DEVICES = (2, 10, 13)
"""DLPack's numbers for CUDA, ROCm and CUDA managed memory."""


class _Facade:
    """A device array as NumPy sees it; keeps the array alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def is_on_device(array: Any) -> bool:
    """Whether an array lies on a GPU. Nothing is imported or copied to find out."""
    if isinstance(array, (np.ndarray, list, tuple, int, float)):
        return False
    if device := getattr(array, "__dlpack_device__", None):
        return int(device()[0]) in _CUDA_DEVICES
    return hasattr(array, "__cuda_array_interface__")


def facade(array: Any, gpu: int) -> Array:
    """A NumPy array with a device array's address, shape, strides and dtype. It must never be read or written.

    Args:
        array: a PyTorch or CuPy array, or anything with DLPack or ``__cuda_array_interface__``.
        gpu: the number of the GPU that it must lie on.

    Raises:
        BindingError: it lies on another device, or cannot be understood.
    """
    if not _is_tensor(array):
        if hasattr(array, "__cuda_array_interface__"):
            number = int(array.__dlpack_device__()[1]) if hasattr(array, "__dlpack_device__") else gpu
            if number != gpu:
                message = f"an array lies on GPU {number}, but the operator runs on cuda:{gpu}"
                raise BindingError(message, None, None, "all arrays lie on the device")
            interface = array.__cuda_array_interface__
            keys = ("shape", "typestr", "data", "strides")
            return np.asarray(_Facade(array, {"version": 3, **{k: interface.get(k) for k in keys}}))
        if not hasattr(array, "__dlpack__"):
            message = f"a {type(array).__name__} does not lie on a GPU"
            raise BindingError(f"{message}: bind PyTorch or CuPy arrays, or any with DLPack", None, None, message)
        import torch

        array = torch.from_dlpack(array)
    if array.device.type != "cuda" or array.device.index != gpu:
        message = f"an array lies on {array.device}, but the operator runs on cuda:{gpu}"
        raise BindingError(message, None, None, "all arrays lie on the device")
    size = array.element_size()
    interface = {
        "version": 3,
        "shape": tuple(array.shape),
        "typestr": torch_dtype(array.dtype).str,
        "data": (array.data_ptr(), False),
        "strides": tuple(stride * size for stride in array.stride()),
    }
    return np.asarray(_Facade(array, interface))


def _is_tensor(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def torch_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype for PyTorch's; plain bytes of the same size for those that NumPy lacks, such as bfloat16."""
    try:
        return np.dtype(str(dtype).removeprefix("torch."))
    except TypeError:
        return np.dtype((np.void, dtype.itemsize))


class Upload:
    """Numbers on their way to a GPU, on the current stream; the host does not wait for them.

    Attributes:
        address: where they will be.
    """

    def __init__(self, numbers: Array, gpu: int) -> None:
        import torch

        self._stream = torch.cuda.current_stream(gpu)
        self._memory = torch.from_numpy(numbers).pin_memory().to(f"cuda:{gpu}", non_blocking=True)
        self._done = self._stream.record_event()
        self._gpu = gpu
        self.address: int = self._memory.data_ptr()

    def wait(self, on_host: bool) -> None:
        """Make the current stream wait for them, or the host, and so every stream."""
        import torch

        if on_host:
            self._done.synchronize()
        elif (stream := torch.cuda.current_stream(self._gpu)) != self._stream:
            stream.wait_event(self._done)
            self._memory.record_stream(stream)


def callers_stream(owners: Sequence[Any], gpu: int) -> contextlib.AbstractContextManager[Any]:
    """Makes the stream current that the arrays' library would use: CuPy's for its own arrays, else PyTorch's."""
    import torch

    stream: contextlib.AbstractContextManager[Any] = torch.cuda.device(gpu)
    if any(type(owner).__module__.partition(".")[0] == "cupy" for owner in owners):
        import cupy

        pointer = cupy.cuda.get_current_stream().ptr
        if pointer != torch.cuda.current_stream(gpu).cuda_stream:
            stream = torch.cuda.stream(torch.cuda.ExternalStream(pointer, device=gpu))
    return stream


def owner_of(array: Array) -> Any:
    """The device array behind a facade; an array of NumPy's own is its own owner."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base.owner if isinstance(base, _Facade) else array
