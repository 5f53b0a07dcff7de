"""What flows through a graph: tensors, which are stored or described as moves of others, and sequences of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.tracing.sizes import is_open

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

INT64 = np.dtype(np.int64)

FEW = 64
"""Elements of shape arithmetic, at most."""


def known_array(elements: Sequence[Any], dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Elements as an array of their dtype; of objects, where one of them is an open size."""
    array = np.array(elements, object if is_open(elements) else dtype)
    return array.reshape(tuple(shape))


def integers(values: Sequence[int]) -> Array:
    """Sizes as INT64 numbers of one dimension (see `known_array`)."""
    return known_array(values, INT64, (len(values),))


class Held:
    """Bytes of an array that a budget counts for as long as this is alive."""

    __slots__ = ("_array", "_budget")

    def __init__(self, budget: Budget, array: Array) -> None:
        self._budget, self._array = budget, array
        budget.hold(array)

    def __del__(self) -> None:
        self._budget.release([self._array])


class Tensor:
    """A tensor while a graph runs, or before it does.

    Attributes:
        dtype: NumPy's; strings are objects.
        shape: its sizes.
        array: its elements, objects where some are open sizes; None where they are not stored, or not known.
        value: where its elements come from, in the region that is being composed; None where they are stored.
        maker: what errors call the node that makes it.
        held: keeps the array counted; None for arrays of others.
    """

    __slots__ = ("__weakref__", "array", "dtype", "held", "maker", "shape", "value")

    def __init__(
        self,
        dtype: np.dtype[Any],
        shape: Sizes,
        array: Array | None = None,
        value: Value | None = None,
        maker: str = "",
        held: Held | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.array = array
        self.value = value
        self.maker = maker
        self.held = held

    @classmethod
    def of(cls, array: Array) -> Tensor:
        """Somebody else's array."""
        return cls(array.dtype, array.shape, array)

    @property
    def size(self) -> int:
        """Elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize


class Tensors(tuple["Tensor", ...]):
    """A sequence of tensors, all of one type."""

    __slots__ = ()


class Nothing(Tensors):
    """An optional value that has no element."""

    __slots__ = ()


Flowing = Tensor | Tensors
"""What a name in a graph may stand for."""
