"""The adapter of CuPy arrays, which are always on a GPU. The GPU engine allocates results as CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.arrays.adapter import Array, ArrayAdapter
from anydml.memory.device_array import device_array


class CupyAdapter(ArrayAdapter):
    """A CuPy array."""

    __slots__ = ()
    LIBRARY = "a CuPy array"

    @property
    def device(self) -> str:
        """The GPU, by number."""
        return f"cuda:{self.array.device.id}"

    def view(self, name: str, field: str) -> Array:
        """Return a view of the array's memory."""
        return device_array(self.array)

    def from_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """Return the NumPy array: CuPy has no arrays in host memory."""
        return lengths
