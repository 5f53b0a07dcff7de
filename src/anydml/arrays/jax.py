"""JAX's arrays. Read only once there is one, so that importing jax here imports nothing new."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from anydml.arrays.adapter import Array, ArrayAdapter, Sizes
from anydml.arrays.jax_put import given, put
from anydml.arrays.quick import BRIDGES, Bridge
from anydml.memory.device_array import device_array
from anydml.memory.results import empty

ALIGNMENT = 64
"""XLA reads host memory in place from such addresses on, and copies all other."""

BYTE = np.dtype(np.uint8)

SMALL = 32 << 10
"""Bytes of arrays up to which calls are NumPy's: their results may lie anywhere, and are copied once more."""


class JaxAdapter(ArrayAdapter):
    """An array on one device: a CPU's or a GPU's."""

    __slots__ = ()
    LIBRARY = "a JAX array"

    @property
    def device(self) -> str:
        """JAX's name of it; of all of them, where the array is sharded."""
        if isinstance(self.array, jax.core.Tracer):
            return "no device"
        return ", ".join(sorted(map(_name, self.array.devices())))

    def view(self, name: str, field: str) -> Array:
        """The array's memory; on a GPU through DLPack, which keeps the streams in order.

        Raises:
            BindingError: it is traced, sharded, a random key, or lies on neither CPU nor GPU.
        """
        array = self.array
        if isinstance(array, jax.core.Tracer):
            self.refuse(name, field, "that is traced", "call it outside of jax.jit, or through jax.pure_callback")
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
            self.refuse(name, field, f"of {array.dtype}", "pass jax.random.key_data of it")
        devices = array.devices()
        if len(devices) > 1:
            self.refuse(name, field, f"on {self.device}", "pass one shard, or collect it with jax.device_put")
        platform = next(iter(devices)).platform
        if platform == "cpu":
            return np.asarray(array)
        if platform not in ("gpu", "cuda", "rocm"):
            self.refuse(name, field, f"on {self.device}", "arrays are moved on CPUs and GPUs")
        # The engine runs on PyTorch's streams, so that PyTorch is there already, or has to be.
        import torch

        return device_array(torch.from_dlpack(array))

    def target(self, name: str, field: str) -> Array:
        """JAX's arrays never change.

        Raises:
            BindingError: always.
        """
        return self.refuse(name, field, "which never changes", "leave out away and take the result")

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """Memory that XLA takes without a copy."""
        memory = empty((math.prod(shape) * dtype.itemsize + ALIGNMENT - 1,), BYTE)
        start = -memory.ctypes.data % ALIGNMENT
        return np.ndarray(shape, dtype, memory, start)

    def give(self, result: Array) -> Any:
        """An array over the same memory, on the same device, committed to it if this one is."""
        return given([result], self.array)[0]

    def give_from_device(self, result: Any) -> Any:
        """A tensor of PyTorch's as an array of JAX's, through DLPack."""
        return jax.dlpack.from_dlpack(result)

    def give_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """INT64 on a CPU, whatever jax_enable_x64 says."""
        return put(lengths, None if "cpu" in self.device else jax.devices("cpu")[0])

    def upload(self, indices: Array) -> Any:
        """A tensor of PyTorch's, as all that the engine sees on a GPU."""
        import torch

        return torch.from_numpy(indices).to(torch.from_dlpack(self.array).device)


def _views(arrays: Sequence[Any]) -> list[Array] | None:
    """NumPy's arrays over the memory of small arrays on one CPU device; None of others."""
    if any(type(array) is not _KIND for array in arrays):
        return None
    places = arrays[0].devices()
    if len(places) != 1 or next(iter(places)).platform != "cpu":
        return None
    if len(arrays) > 1 and any(array.devices() != places for array in arrays):
        return None
    try:
        views = [*map(np.asarray, arrays)]
    except RuntimeError:
        # One was deleted, or given away.
        return None
    return views if sum([view.nbytes for view in views]) <= SMALL else None


def _name(device: Any) -> str:
    kind = "cuda" if device.platform == "gpu" else device.platform
    return f"{kind}:{device.id}"


_KIND = type(jax.device_put(np.zeros(1, np.float32)))

BRIDGES[_KIND] = Bridge(_views, given)
