"""Orders of a value's elements: a shape into which its axes are split, and a permutation of these axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.slim.pieces import Digit, FlatPiece, tidy
from anydml.tensor import packed_strides

TRANSPOSED = (1, 0)
"""The permutation of a transposed matrix."""


class Order(NamedTuple):
    """An order of elements.

    Attributes:
        sizes: the shape into which a value is split.
        perm: axis k of the new order is axis ``perm[k]``.
    """

    sizes: tuple[int, ...]
    perm: tuple[int, ...]

    @property
    def transposed(self) -> tuple[int, ...]:
        """The shape in the new order."""
        return tuple(self.sizes[axis] for axis in self.perm)

    @property
    def inverse(self) -> tuple[int, ...]:
        """The inverse permutation."""
        return tuple(np.argsort(self.perm).tolist())

    def is_of(self, piece: FlatPiece) -> bool:
        """Whether a piece is a whole value in this order."""
        steps, strides = packed_strides(self.transposed), packed_strides(self.sizes)
        digits = [Digit(self.sizes[axis], step, strides[axis]) for axis, step in zip(self.perm, steps, strict=True)]
        return (piece.first_index, piece.offset, piece.digits) == (0, 0, tidy(digits))

    def split(self, sizes: Sequence[int]) -> Order | None:
        """Return the same order with all axes of a shape separate; None if they do not fit."""
        count = math.prod(self.sizes)
        units = packed_strides(self.sizes)
        steps = sorted({*units, *packed_strides([size for size in sizes if size != 1])} - {count}, reverse=True)
        fine = []
        for step, outer in zip(steps, [count, *steps], strict=False):
            if outer % step:
                return None
            fine.append(outer // step)
        # Axes of size 1 have the stride of the next axis.
        position = {step: k for k, step in enumerate(steps)}
        perm: list[int] = []
        for axis in self.perm:
            if self.sizes[axis] > 1:
                first, last = position.get(units[axis] * self.sizes[axis], -1), position[units[axis]]
                perm += range(first + 1, last + 1)
        perm += [k for k in range(len(fine)) if k not in perm]
        # Leading axes of size 1 are kept, so that ranks stay the same.
        leading_ones = next((k for k, size in enumerate(self.sizes) if size != 1), 0)
        return Order((*(1,) * leading_ones, *fine), (*range(leading_ones), *(k + leading_ones for k in perm)))

    def of_constant(self, array: Array, sizes: Sequence[int]) -> Array | None:
        """Return a constant that broadcasts to a shape in this order, which must not merge axes of the shape."""
        if array.ndim > len(sizes):
            return None
        remaining = [*self.sizes]
        shape: list[int] = []
        while remaining and remaining[0] == 1:
            shape.append(remaining.pop(0))
        for array_size, size in zip((*(1,) * (len(sizes) - array.ndim), *array.shape), sizes, strict=True):
            size_left = size
            while size_left > 1:
                inner = remaining.pop(0)
                shape.append(1 if array_size == 1 else inner)
                size_left //= inner
        shape += [1] * len(remaining)
        return np.array(array.reshape(shape).transpose(self.perm), order="C")


def transposed_matrix(piece: FlatPiece) -> tuple[int, int] | None:
    """Return the rows and columns of the result if a piece is a transposed matrix, else None."""
    if (piece.first_index, piece.offset, len(piece.digits)) != (0, 0, 2):
        return None
    (rows, step, column_stride), (columns, unit, stride) = piece.digits
    return (rows, columns) if (step, column_stride, unit, stride) == (columns, 1, 1, rows) else None


def orders_of(piece: FlatPiece, leading: Sequence[int], columns: int) -> list[Order]:
    """Return the orders in which a product may be computed so that the piece becomes the whole result."""
    count = math.prod(leading)
    if piece.first_index or piece.offset or piece.size != count * columns:
        return []
    orders = {Order((count, columns), TRANSPOSED): None}
    inner = next((digit.size for digit in piece.digits if digit.stride == 1), 0)
    if 1 < inner < columns and columns % inner == 0:
        for k in range(len(leading)):
            sizes = math.prod(leading[:k]), math.prod(leading[k:]), columns // inner, inner
            orders[Order(sizes, (0, 2, 1, 3))] = None
    return [order for order in orders if order.is_of(piece)]
