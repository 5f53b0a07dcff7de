"""Memory and streams of a GPU, through the caller's library."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from anydml.memory.device_array import DeviceArray, as_tensor, is_cupy

Array = np.ndarray[Any, Any]
Stream = Callable[[], contextlib.AbstractContextManager[Any]]

ALIGNMENT = 256
"""Alignment in bytes of allocated memory."""


class Memory:
    """Uninitialized GPU memory, allocated on a separate stream, so that waiting for it waits for nothing else.

    Attributes:
        address: address of the first byte, a multiple of 256.
    """

    __slots__ = ("_done", "_gpu", "_memory", "_streams", "address")

    def __init__(self, size: int, gpu: int) -> None:
        import torch

        self._take(lambda: torch.empty(size, dtype=torch.uint8, device=f"cuda:{gpu}"), gpu)

    def _take(self, make: Callable[[], Any], gpu: int) -> None:
        import torch

        self._gpu = gpu
        self._streams: dict[int, Any] = {}
        with torch.cuda.stream(_upload_stream(gpu)):
            self._memory = make()
            self._done = torch.cuda.current_stream(gpu).record_event()
        self.address: int = self._memory.data_ptr()

    def read(self) -> Array:
        """Copy the memory to the host, after all work on the current stream."""
        copy: Array = self._memory.cpu().numpy()
        return copy

    def wait(self, on_host: bool) -> None:
        """Make the host, or the current stream, wait for the memory."""
        import torch

        if on_host:
            self._done.synchronize()
        else:
            torch.cuda.current_stream(self._gpu).wait_event(self._done)

    def keep(self) -> None:
        """Keep the memory allocated until the current stream's present work is done."""
        import torch

        stream = torch.cuda.current_stream(self._gpu)
        pointer: int = stream.cuda_stream
        if pointer not in self._streams:
            self._memory.record_stream(stream)
            self._streams[pointer] = _owner(stream, self._gpu)

    def __del__(self) -> None:
        # Deleted before the streams, which PyTorch queries for pending work.
        self._memory = None


class Upload(Memory):
    """An asynchronous copy of host memory to a GPU."""

    __slots__ = ()

    def __init__(self, numbers: Array, gpu: int) -> None:
        import torch

        self._take(lambda: torch.from_numpy(numbers).pin_memory().to(f"cuda:{gpu}", non_blocking=True), gpu)


class HostMemory:
    """Host memory with the interface of `Memory`, for the interpreter."""

    __slots__ = ("_memory", "address")

    def __init__(self, size: int) -> None:
        words = np.empty(-(-size // ALIGNMENT) + 1, np.dtype((np.void, ALIGNMENT)))
        start = -words.ctypes.data % ALIGNMENT
        self._memory = words.view(np.uint8)[start : start + size]
        self.address: int = self._memory.ctypes.data

    def wait(self, on_host: bool) -> None:
        """No-op: host memory is available at once."""

    def fill(self, numbers: Array) -> None:
        """Copy an array of the same size in bytes to the memory."""
        self._memory[...] = numbers

    def read(self) -> Array:
        """Return the bytes of the memory as a new array on the host."""
        return self._memory.copy()

    def keep(self) -> None:
        """No-op: Python keeps the memory alive."""


def reserve(size: int, gpu: int | None) -> Memory | HostMemory:
    """Allocate uninitialized memory for kernels."""
    return HostMemory(size) if gpu is None else Memory(size, gpu)


def upload(numbers: Array, gpu: int | None) -> Memory | HostMemory:
    """Copy an array of bytes to memory for kernels."""
    if gpu is not None:
        return Upload(numbers, gpu)
    memory = HostMemory(numbers.size)
    memory.fill(numbers)
    return memory


def is_captured(gpu: int | None) -> bool:
    """Whether the current stream is captured for a CUDA graph."""
    if gpu is None:
        return False
    import torch

    captured: bool = torch.cuda.is_current_stream_capturing()
    return captured


@cache
def _upload_stream(gpu: int) -> Any:
    import torch

    return torch.cuda.Stream(gpu)


def _owner(stream: Any, gpu: int) -> Any:
    """Return an object that keeps a stream alive: PyTorch's streams persist, CuPy's end with their last reference."""
    if cupy := sys.modules.get("cupy"):
        with cupy.cuda.Device(gpu):
            theirs = cupy.cuda.get_current_stream()
        if theirs.ptr == stream.cuda_stream:
            return theirs
    return stream


def callers_stream(arrays: Sequence[Array], gpu: int | None) -> Stream:
    """Return a context manager that makes the arrays' stream current: CuPy's for its own arrays, else PyTorch's."""
    if gpu is None:
        return contextlib.nullcontext
    if any(is_cupy(getattr(array, "owner", None)) for array in arrays):
        return partial(_cupys_stream, gpu)
    import torch

    return partial(torch.cuda.device, gpu)


def _cupys_stream(gpu: int) -> contextlib.AbstractContextManager[Any]:
    import cupy
    import torch

    with cupy.cuda.Device(gpu):
        pointer = cupy.cuda.get_current_stream().ptr
    if pointer == torch.cuda.current_stream(gpu).cuda_stream:
        device: contextlib.AbstractContextManager[Any] = torch.cuda.device(gpu)
        return device
    stream: contextlib.AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.ExternalStream(pointer, device=gpu))
    return stream


def empty(like: Array, count: int) -> Any:
    """Allocate a one-dimensional array of `count` elements, with the dtype, device and library of another."""
    owner: Any = like.owner if isinstance(like, DeviceArray) else like
    if isinstance(owner, np.ndarray):
        return np.empty(count, owner.dtype)
    if is_cupy(owner):
        import cupy

        with cupy.cuda.Device(owner.device.id):
            return cupy.empty(count, owner.dtype)
    return as_tensor(owner, getattr(like, "gpu", 0)).new_empty(count)
