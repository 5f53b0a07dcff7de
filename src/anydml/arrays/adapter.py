"""The interface of adapters: one subclass per library."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np

from anydml.errors import BindingError
from anydml.memory.results import empty

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

ONE_PLACE = "all arrays of a call must be of one library and on one device"
NO_DEVICE = "no device"
"""The device of arrays that `ArrayAdapter.view` refuses because they are traced or deleted."""


class ArrayAdapter:
    """An array of another library than NumPy.

    Args:
        array: the caller's array.
    """

    __slots__ = ("array",)

    LIBRARY: ClassVar[str]
    """A noun for the library's arrays, for errors, such as ``"a PyTorch tensor"``."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def device(self) -> Any:
        """The array's device, as the library represents it: comparable, and printed as ``cpu`` or ``cuda:0``."""
        raise NotImplementedError

    def view(self, name: str, field: str) -> Array:
        """Return a view of the array's memory for reading: a NumPy array, or a `DeviceArray`.

        Args:
            name: the function's name, for errors.
            field: the argument's name, for errors.

        Raises:
            BindingError: the array has no memory that can be read.
        """
        raise NotImplementedError

    def target(self, name: str, field: str) -> Array:
        """Return a view of the array's memory for writing: a NumPy array, or a `DeviceArray`.

        Raises:
            BindingError: the array has no memory that can be written.
        """
        return self.view(name, field)

    def mark_written(self) -> None:
        """Notify the library that the memory from `target` was written."""

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """Allocate host memory for a result that `to_library` converts.

        Raises:
            BindingError: the library cannot convert it.
        """
        return empty(shape, dtype)

    def to_library(self, result: Any) -> Any:
        """Return an array of this library, device and dtype over memory from `empty`, without a copy.

        Args:
            result: from `empty`; on a GPU, the engine's: an array of CuPy for such arrays, of PyTorch for all others.
        """
        return result

    def supports(self, dtype: np.dtype[Any]) -> bool:
        """Whether `empty` and `to_library` support a dtype other than this array's."""
        return False

    def from_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """Convert sizes to an INT64 array of this library, in host memory."""
        return self.to_library(lengths)

    def refuse(self, name: str, field: str, reason: str, hint: str) -> NoReturn:
        """Raise `BindingError` with the reason and a hint at the remedy."""
        message = f"{name}: {field} is {self.LIBRARY} {reason}: {hint}"
        raise BindingError(message, name, field, "an array must have memory that can be read and written")

    def __str__(self) -> str:
        return f"{self.LIBRARY} on {self.device}"
