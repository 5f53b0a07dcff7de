"""Values in a graph: tensors, either stored or composed of moves from other tensors, and sequences of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.arrays.receive import check_host, read_argument
from anydml.errors import BindingError, DescError, ModelError
from anydml.memory.device_array import DeviceArray
from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.tracing.open_sizes import is_open

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

INT64 = np.dtype(np.int64)

MAX_SHAPE_ELEMENTS = 64
"""Largest number of elements of tensors in shape arithmetic."""


def constant_array(elements: Sequence[Any], dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Return an array of elements; its dtype is object if one of them is an open size."""
    array = np.array(elements, object if is_open(elements) else dtype)
    return array.reshape(tuple(shape))


def integers(values: Sequence[int]) -> Array:
    """Return sizes as a 1-D INT64 array (see `constant_array`)."""
    return constant_array(values, INT64, (len(values),))


def host_array(label: str, value: Any) -> Array:
    """Return an argument of any library as a NumPy array on its memory.

    Args:
        label: the input, for errors.
        value: the argument.

    Raises:
        ModelError: the argument has a mask or units, requires grad, or is not in host memory.
    """
    if type(value) is np.ndarray or isinstance(value, (str, bytes)) or value is None:
        return np.asarray(value)
    try:
        array, adapter = read_argument(label, value, "value")
        check_host(label, "value", adapter or array, not isinstance(array, DeviceArray))
    except (BindingError, DescError) as error:
        raise ModelError(str(error), error.operator, error.field, error.rule) from None
    return array


class Reservation:
    """Holds an array in a budget for as long as this object is alive."""

    __slots__ = ("_array", "_budget")

    def __init__(self, budget: Budget, array: Array) -> None:
        self._budget, self._array = budget, array
        budget.hold(array)

    def __del__(self) -> None:
        self._budget.release([self._array])


class Tensor:
    """A tensor of a graph that runs or is analysed.

    Attributes:
        dtype: the dtype; object for strings.
        shape: the sizes.
        array: the elements, of dtype object if some are open sizes; None if not stored or unknown.
        value: the source of its elements in the current region; None if stored.
        maker: label of the node that creates it, for errors.
        reservation: holds the array in the budget; None for arrays of the caller.
    """

    __slots__ = ("__weakref__", "array", "dtype", "maker", "reservation", "shape", "value")

    def __init__(
        self,
        dtype: np.dtype[Any],
        shape: Sizes,
        array: Array | None = None,
        value: Value | None = None,
        maker: str = "",
        reservation: Reservation | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.array = array
        self.value = value
        self.maker = maker
        self.reservation = reservation

    @classmethod
    def of(cls, array: Array) -> Tensor:
        """Wrap an array of the caller."""
        return cls(array.dtype, array.shape, array)

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.size * self.dtype.itemsize


class TensorSequence(tuple["Tensor", ...]):
    """A sequence of tensors of one type.

    Attributes:
        dtype: the type that is declared, which an empty sequence has, too; None if none is.
    """

    dtype: np.dtype[Any] | None = None

    def typed(self, dtype: np.dtype[Any] | None) -> TensorSequence:
        """Return the sequence with a type."""
        typed = TensorSequence(self)
        typed.dtype = self[0].dtype if self else dtype
        return typed


class EmptyOptional(TensorSequence):
    """An optional value without an element."""


GraphValue = Tensor | TensorSequence
"""The value of a name in a graph."""
