"""Arrays of any other library: by DLPack, or by ``__cuda_array_interface__``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.arrays.adapter import Array, ArrayAdapter, Sizes
from anydml.memory.device_array import DeviceArray, device_array, is_on_device

_HOST_DEVICES = (1, 3, 11)
"""DLPack's numbers for host memory: plain, and pinned for CUDA and ROCm."""


class DlpackAdapter(ArrayAdapter):
    """An array of a library that nothing is known of but what its attributes say."""

    __slots__ = ()

    @property
    def LIBRARY(self) -> str:  # type: ignore[override]  # noqa: N802  # every array has its own
        """By the name of its package."""
        return f"an array of {_package(self.array)}"

    @property
    def device(self) -> Any:
        """As the library calls it, if it keeps the array API standard, else by DLPack's numbers."""
        if hasattr(self.array, "__array_namespace__") and hasattr(self.array, "device"):
            return self.array.device
        if not hasattr(self.array, "__dlpack_device__"):
            return "cuda"
        kind, number = self._dlpack_device
        if kind in _HOST_DEVICES:
            return "cpu"
        return f"cuda:{number}" if is_on_device(self.array) else f"device {number} of DLPack's kind {kind}"

    @property
    def _dlpack_device(self) -> tuple[int, int]:
        kind, number = self.array.__dlpack_device__()
        return int(kind), int(number)

    def view(self, name: str, field: str) -> Array:
        """The array's memory.

        Raises:
            BindingError: it lies neither in host memory nor on a GPU, or NumPy cannot read it.
        """
        if is_on_device(self.array):
            return self._on_device()
        if self._dlpack_device[0] not in _HOST_DEVICES:
            self.refuse(name, field, f"on {self.device}", "arrays are moved on CPUs and GPUs")
        try:
            return np.from_dlpack(self.array)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            return self.refuse(name, field, f"that NumPy cannot read ({error})", "pass a NumPy array")

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """Memory that the library takes through DLPack.

        Raises:
            BindingError: it has no from_dlpack.
        """
        if self._from_dlpack is None:
            self.refuse(name, "x", "whose library has no from_dlpack", "pass numpy.from_dlpack(x), or out")
        return super().empty(name, shape, dtype)

    def give(self, result: Array) -> Any:
        """The library's array over the same memory, on the same of its devices."""
        take = self._from_dlpack
        if take is None:
            return result
        given = take(result)
        if (device := getattr(self.array, "device", None)) != getattr(given, "device", None):
            import array_api_compat

            # Only a library with several devices in host memory comes here.
            return array_api_compat.to_device(given, device)
        return given

    def give_from_device(self, result: Any) -> Any:
        """A tensor of PyTorch's as the library's array, where it can take one."""
        return self.give(result)

    def give_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """The library's array in host memory; NumPy's for a GPU's."""
        return lengths if is_on_device(self.array) else self.give(lengths)

    def upload(self, indices: Array) -> Any:
        """A tensor of PyTorch's, as all that the engine makes for an unknown library."""
        import torch

        return torch.from_numpy(indices).to(f"cuda:{self._dlpack_device[1]}")

    def _on_device(self) -> DeviceArray:
        if hasattr(self.array, "__dlpack__"):
            # Through PyTorch, whose streams the engine runs on, so that DLPack keeps them in order.
            import torch

            return device_array(torch.from_dlpack(self.array))
        return device_array(self.array)

    @property
    def _from_dlpack(self) -> Callable[[Any], Any] | None:
        """How the array's library takes arrays of others."""
        namespace = getattr(self.array, "__array_namespace__", None)
        library = sys.modules.get(_package(self.array)) if namespace is None else namespace()
        return getattr(library, "from_dlpack", None)


def _package(array: Any) -> str:
    return type(array).__module__.partition(".")[0]
