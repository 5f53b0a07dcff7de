"""CuPy's arrays, always on a GPU: the GPU engine knows them, and gives back its own."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from anydml.arrays.adapter import Array, ArrayAdapter
from anydml.memory.device_array import device_array


class CupyAdapter(ArrayAdapter):
    """An array on a GPU."""

    __slots__ = ()
    LIBRARY = "a CuPy array"

    @property
    def device(self) -> str:
        """Its GPU, by number."""
        return f"cuda:{self.array.device.id}"

    def view(self, name: str, field: str) -> Array:
        """The array's memory."""
        return device_array(self.array)

    def give_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """NumPy's own: CuPy has no arrays in host memory."""
        return lengths

    def upload(self, indices: Array) -> Any:
        """An array on the same GPU."""
        with cupy.cuda.Device(self.array.device.id):
            return cupy.asarray(indices)
