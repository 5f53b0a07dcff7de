"""The adapter of JAX arrays. Imported when there is one, so the import of jax costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np

from anydml.arrays.adapter import NO_DEVICE, Array, ArrayAdapter
from anydml.arrays.native_arrays import BRIDGES, Bridge
from anydml.memory.device_array import as_tensor, device_array


class JaxAdapter(ArrayAdapter):
    """A JAX array on one device, a CPU or a GPU."""

    __slots__ = ()
    LIBRARY = "a JAX array"

    @property
    def device(self) -> str:
        """The name of the device, or the names of all devices of a sharded array."""
        if isinstance(self.array, jax.core.Tracer) or self.array.is_deleted():
            return NO_DEVICE
        return ", ".join(sorted(map(_name, self.array.devices())))

    def view(self, name: str, field: str) -> Array:
        """Return a view of the array's memory; on a GPU by DLPack, which synchronizes the streams.

        Raises:
            BindingError: the array is traced, deleted, sharded, a random key, or on neither a CPU nor a GPU.
        """
        array = self.array
        if isinstance(array, jax.core.Tracer):
            self.refuse(name, field, "that is traced", "call it outside of jax.jit, or through jax.pure_callback")
        if array.is_deleted():
            self.refuse(name, field, "that was deleted or donated", "pass a copy that was made before")
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
        return device_array(as_tensor(array, 0))

    def target(self, name: str, field: str) -> Array:
        """Refuse the array: JAX arrays are immutable.

        Raises:
            BindingError: always.
        """
        return self.refuse(name, field, "that is immutable", "omit out, and use the result")

    def to_library(self, result: Any) -> Any:
        """Return an array on this array's device, committed to the device if this array is."""
        return _to_jax([result], self.array)[0] if isinstance(result, np.ndarray) else jax.dlpack.from_dlpack(result)

    def from_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """Return an INT64 array on this array's CPU, or on the first for one on a GPU, even without jax_enable_x64."""
        return _to_jax([lengths], self.array)[0] if "cpu" in self.device else _put([lengths], jax.devices("cpu")[0])[0]


def _views(arrays: Sequence[Any]) -> list[Array] | None:
    """Return NumPy views of arrays that lie on one CPU device; None if any lies elsewhere."""
    if any(type(array) is not _KIND or array.is_deleted() for array in arrays):
        return None
    devices = arrays[0].devices()
    if [device.platform for device in devices] != ["cpu"] or any(array.devices() != devices for array in arrays):
        return None
    return [*map(np.asarray, arrays)]


def _to_jax(results: Sequence[Array], like: Any) -> list[Any]:
    """Return JAX arrays of NumPy arrays' elements, on the device of `like`, and committed if `like` is.

    XLA uses memory in place if its address is a multiple of 64, as for large results, and copies it otherwise.
    """
    return _put([*results], next(iter(like.devices())) if like.committed else None)


def _put(arrays: list[Array], device: Any) -> list[Any]:
    """Return JAX arrays of NumPy arrays' elements, committed to a device; on the default device if None."""
    # A caller who has 64-bit arrays despite jax_enable_x64=False must not get narrower results.
    with jax.enable_x64(True) if any(array.dtype.itemsize >= 8 for array in arrays) else nullcontext():
        on_device: list[Any] = jax.device_put(arrays, device)
    return on_device


def _name(device: Any) -> str:
    device_type = "cuda" if device.platform == "gpu" else device.platform
    return f"{device_type}:{device.id}"


_KIND = type(jax.device_put(np.zeros(1, np.float32)))

BRIDGES[_KIND] = Bridge(_views, _to_jax)
