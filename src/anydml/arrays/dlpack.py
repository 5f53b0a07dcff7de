"""The adapter of arrays of CuPy and any other library, through DLPack or ``__cuda_array_interface__``.

For CuPy's arrays, the GPU engine allocates results as CuPy arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.arrays.adapter import Array, ArrayAdapter, Sizes
from anydml.memory.device_array import as_tensor, device_array, dlpack_device, is_cupy, is_on_device, package_of

_HOST_DEVICES = (1, 3, 11)
"""DLPack's numbers for host memory: pageable, and pinned for CUDA and ROCm."""


class DlpackAdapter(ArrayAdapter):
    """An array of which only standard attributes are known."""

    __slots__ = ()

    @property
    def LIBRARY(self) -> str:  # type: ignore[override]  # noqa: N802  # depends on the array
        """A noun with the name of the array's package."""
        return f"an array of {package_of(self.array)}"

    @property
    def device(self) -> Any:
        """The GPU by number; else the array API standard's attribute ``device``, or a name of DLPack's numbers."""
        if not hasattr(self.array, "__dlpack_device__"):
            return "cuda"
        device_type, device_index = dlpack_device(self.array)
        if is_on_device(self.array):
            return f"cuda:{device_index}"
        if hasattr(self.array, "__array_namespace__") and hasattr(self.array, "device"):
            return self.array.device
        return "cpu" if device_type in _HOST_DEVICES else f"device {device_index} of DLPack's kind {device_type}"

    def view(self, name: str, field: str) -> Array:
        """Return a view of the array's memory.

        Raises:
            BindingError: the array is neither in host memory nor on a GPU, or NumPy cannot read it.
        """
        if is_on_device(self.array):
            # By PyTorch, so that DLPack synchronizes with its streams, which the engine uses unless arrays are CuPy's.
            is_synchronized = hasattr(self.array, "__dlpack__") and not is_cupy(self.array)
            return device_array(as_tensor(self.array, 0) if is_synchronized else self.array)
        if dlpack_device(self.array)[0] not in _HOST_DEVICES:
            self.refuse(name, field, f"on {self.device}", "arrays are moved on CPUs and GPUs")
        try:
            return np.from_dlpack(self.array)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            return self.refuse(name, field, f"that NumPy cannot read ({error})", "pass a NumPy array")

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """Allocate memory that `to_library` passes to the library by DLPack.

        Raises:
            BindingError: the library has no from_dlpack.
        """
        if self._from_dlpack is None:
            self.refuse(name, "x", "whose library has no from_dlpack", "pass numpy.from_dlpack(x), or out")
        return super().empty(name, shape, dtype)

    def to_library(self, result: Any) -> Any:
        """Return an array of the library over the same memory, on this array's device, if it has from_dlpack."""
        from_dlpack = self._from_dlpack
        if from_dlpack is None or type(result) is type(self.array):
            return result
        converted = from_dlpack(result)
        if (device := getattr(self.array, "device", None)) != getattr(converted, "device", None):
            import array_api_compat

            # The library has several devices in host memory.
            return array_api_compat.to_device(converted, device)
        return converted

    def from_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """Return an array of the library, or a NumPy array if this one is on a GPU."""
        return lengths if is_on_device(self.array) else self.to_library(lengths)

    @property
    def _from_dlpack(self) -> Callable[[Any], Any] | None:
        """The library's from_dlpack, or None."""
        namespace = getattr(self.array, "__array_namespace__", None)
        library = sys.modules.get(package_of(self.array)) if namespace is None else namespace()
        return getattr(library, "from_dlpack", None)
