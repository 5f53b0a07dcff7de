"""What every library's arrays are asked."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np

from anydml.errors import BindingError
from anydml.memory.results import empty

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

ONE_PLACE = "all arrays of a call are of one library and lie on one device"


class ArrayAdapter:
    """An array of another library than NumPy.

    Args:
        array: the caller's array.
    """

    __slots__ = ("array",)

    LIBRARY: ClassVar[str]
    """What errors call such an array, such as ``"a PyTorch tensor"``."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def device(self) -> Any:
        """Where the array lies, as the library calls it: ``cpu``, ``cuda:0`` … It can be compared, and printed."""
        raise AssertionError("every library knows")

    def view(self, name: str, field: str) -> Array:
        """The array's memory, to be read: a NumPy array, or a `DeviceArray`.

        Args:
            name: the function's name, for errors.
            field: the argument's.

        Raises:
            BindingError: it has no memory that could be read.
        """
        raise AssertionError("every library knows")

    def target(self, name: str, field: str) -> Array:
        """The array's memory, to be written: a NumPy array, or a `DeviceArray`.

        Raises:
            BindingError: it has no memory that could be written.
        """
        return self.view(name, field)

    def written(self) -> None:
        """Say that what `target` gave was written."""

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """Host memory for a result that `give` can take.

        Raises:
            BindingError: the library has no way to take it.
        """
        return empty(shape, dtype)

    def give(self, result: Array) -> Any:
        """An array of this library, device and dtype, over the memory of one that `empty` gave."""
        raise AssertionError("every library knows")

    def give_from_device(self, result: Any) -> Any:
        """The same for what the GPU engine returned."""
        return result

    def holds(self, dtype: np.dtype[Any]) -> bool:
        """Whether `empty` gives memory for elements of another dtype than this array's."""
        return False

    def give_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """INT64 sizes, as an array of this library in host memory."""
        return self.give(lengths)

    def upload(self, indices: Array) -> Any:
        """Host integers, as an array that lies where this one does."""
        return indices

    def refuse(self, name: str, field: str, reason: str, hint: str) -> NoReturn:
        """Raise `BindingError`: what the array is, and what to pass instead."""
        message = f"{name}: {field} is {self.LIBRARY} {reason}: {hint}"
        raise BindingError(message, name, field, "an array must have memory that can be moved")

    def __str__(self) -> str:
        return f"{self.LIBRARY} on {self.device}"
