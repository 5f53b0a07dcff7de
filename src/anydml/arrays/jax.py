"""The adapter of JAX arrays. Imported when there is one, so the import of jax costs nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np

from anydml.arrays.adapter import Array, ArrayAdapter, Sizes
from anydml.arrays.quick import BRIDGES, Bridge
from anydml.memory.device_array import device_array
from anydml.memory.results import empty

ALIGNMENT = 64
"""XLA uses host memory in place at multiples of this address, and copies other memory."""

BYTE = np.dtype(np.uint8)

SMALL = 32 << 10
"""Total bytes of arrays up to which calls use NumPy views: XLA copies their results, which may be unaligned."""


class JaxAdapter(ArrayAdapter):
    """A JAX array on one device, a CPU or a GPU."""

    __slots__ = ()
    LIBRARY = "a JAX array"

    @property
    def device(self) -> str:
        """The name of the device, or the names of all devices of a sharded array."""
        if isinstance(self.array, jax.core.Tracer):
            return "no device"
        return ", ".join(sorted(map(_name, self.array.devices())))

    def view(self, name: str, field: str) -> Array:
        """Return a view of the array's memory; on a GPU by DLPack, which synchronizes the streams.

        Raises:
            BindingError: it is traced, sharded, a random key, or on neither a CPU nor a GPU.
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
        # The engine uses PyTorch's streams, so it requires PyTorch in any case.
        import torch

        return device_array(torch.from_dlpack(array))

    def target(self, name: str, field: str) -> Array:
        """Refuse the array: JAX arrays are immutable.

        Raises:
            BindingError: always.
        """
        return self.refuse(name, field, "that is immutable", "omit out, and use the result")

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """Allocate memory that XLA uses without a copy."""
        memory = empty((math.prod(shape) * dtype.itemsize + ALIGNMENT - 1,), BYTE)
        start = -memory.ctypes.data % ALIGNMENT
        return np.ndarray(shape, dtype, memory, start)

    def to_library(self, result: Array) -> Any:
        """Return an array over the same memory, on the same device, committed to it if this one is."""
        return _given([result], self.array)[0]

    def from_device(self, result: Any) -> Any:
        """Convert a PyTorch tensor to a JAX array by DLPack."""
        return jax.dlpack.from_dlpack(result)

    def from_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """Return an INT64 array on a CPU, even without jax_enable_x64."""
        return _put([lengths], None if "cpu" in self.device else jax.devices("cpu")[0])[0]

    def upload(self, indices: Array) -> Any:
        """Copy integers to this array's GPU, as a PyTorch tensor."""
        import torch

        return torch.from_numpy(indices).to(torch.from_dlpack(self.array).device)


def _views(arrays: Sequence[Any]) -> list[Array] | None:
    """Return NumPy views of small arrays on one CPU device, or None."""
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
        # One was deleted or donated.
        return None
    return views if sum([view.nbytes for view in views]) <= SMALL else None


def _given(results: Sequence[Array], like: Any) -> list[Any]:
    """Return JAX arrays over the memory of NumPy arrays, committed to the device of `like` if it is."""
    return _put([*results], next(iter(like.devices())) if like.committed else None)


def _put(arrays: list[Array], device: Any) -> list[Any]:
    """Return JAX arrays over the memory of NumPy arrays, committed to a device, or on the default one for None."""
    # A caller who has 64-bit arrays despite jax_enable_x64=False must not get narrower results.
    with jax.enable_x64(True) if any(array.dtype.itemsize >= 8 for array in arrays) else nullcontext():
        found: list[Any] = jax.device_put(arrays, device)
    return found


def _name(device: Any) -> str:
    kind = "cuda" if device.platform == "gpu" else device.platform
    return f"{kind}:{device.id}"


_KIND = type(jax.device_put(np.zeros(1, np.float32)))

BRIDGES[_KIND] = Bridge(_views, _given)
