"""Memory and streams of a GPU, always through the library that the caller uses."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.backends.device_array import DeviceArray, is_tensor

Array = np.ndarray[Any, Any]


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


def callers_stream(arrays: Sequence[Array], gpu: int | None) -> contextlib.AbstractContextManager[Any]:
    """Makes the stream current that the arrays' library would use: CuPy's for its own arrays, else PyTorch's."""
    if gpu is None:
        return contextlib.nullcontext()
    import torch

    if any(is_cupy(getattr(array, "owner", None)) for array in arrays):
        import cupy

        pointer = cupy.cuda.get_current_stream().ptr
        if pointer != torch.cuda.current_stream(gpu).cuda_stream:
            stream: contextlib.AbstractContextManager[Any] = torch.cuda.stream(
                torch.cuda.ExternalStream(pointer, device=gpu)
            )
            return stream
    device: contextlib.AbstractContextManager[Any] = torch.cuda.device(gpu)
    return device


def empty(like: Array, count: int) -> Any:
    """A new one-dimensional array of `count` elements, of the dtype, device and library of another."""
    owner: Any = like.owner if isinstance(like, DeviceArray) else like
    if isinstance(owner, np.ndarray):
        return np.empty(count, owner.dtype)
    if is_cupy(owner):
        import cupy

        with cupy.cuda.Device(owner.device.id):
            return cupy.empty(count, owner.dtype)
    if is_tensor(owner):
        return owner.new_empty(count)
    import torch

    array = torch.from_dlpack(owner) if hasattr(owner, "__dlpack__") else torch.as_tensor(owner, device="cuda")
    return array.new_empty(count)


def integers(indices: DeviceArray) -> Any:
    """Indices of any integer type as a new INT64 array of the same library."""
    owner: Any = indices.owner
    return owner.long() if is_tensor(owner) else owner.astype("int64")


def is_cupy(owner: Any) -> bool:
    """Whether an array is CuPy's."""
    return type(owner).__module__.partition(".")[0] == "cupy"
