"""Orders of a value's axes: in which shape it is cut, and how its axes are put then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anydml.onnx.values import Array
from anydml.slim.parts import Part, Run, row_major, tidy


class Layout(NamedTuple):
    """An order of axes.

    Attributes:
        sizes: the shape that a value is cut into.
        perm: axis k of the new order is axis ``perm[k]``.
    """

    sizes: tuple[int, ...]
    perm: tuple[int, ...]

    @property
    def transposed(self) -> tuple[int, ...]:
        """The shape in the new order."""
        return tuple(self.sizes[axis] for axis in self.perm)

    @property
    def back(self) -> tuple[int, ...]:
        """The permutation that undoes it."""
        return tuple(np.argsort(self.perm).tolist())

    def is_of(self, part: Part) -> bool:
        """Whether a part has all elements of a value in this order."""
        steps, strides = row_major(self.transposed), row_major(self.sizes)
        runs = [Run(self.sizes[axis], step, strides[axis]) for axis, step in zip(self.perm, steps, strict=True)]
        return (part.at, part.offset, part.runs) == (0, 0, tidy(runs))

    def cut(self, sizes: Sequence[int]) -> Layout | None:
        """The same order with all axes of a shape apart; None where they do not fit."""
        count = math.prod(self.sizes)
        bounds = {*row_major(self.sizes), *row_major([size for size in sizes if size != 1])} - {count}
        steps = sorted(bounds, reverse=True)
        fine = []
        for step, outer in zip(steps, [count, *steps], strict=False):
            if outer % step:
                return None
            fine.append(outer // step)
        # Axes of 1 have the step of the axis behind them.
        place = {step: k for k, step in enumerate(steps)}
        units = row_major(self.sizes)
        perm: list[int] = []
        for axis in self.perm:
            if self.sizes[axis] > 1:
                first, last = place.get(units[axis] * self.sizes[axis], -1), place[units[axis]]
                perm += range(first + 1, last + 1)
        perm += [k for k in range(len(fine)) if k not in perm]
        # A batch of one stays, so that ranks do.
        ones = next((k for k, size in enumerate(self.sizes) if size != 1), 0)
        return Layout((*(1,) * ones, *fine), (*range(ones), *(k + ones for k in perm)))

    def of_constant(self, array: Array, sizes: Sequence[int]) -> Array | None:
        """A constant that is broadcast to a shape, in this order, which has all axes of that shape apart."""
        if array.ndim > len(sizes):
            return None
        wide = array.reshape((*(1,) * (len(sizes) - array.ndim), *array.shape))
        left = [*self.sizes]
        shape: list[int] = []
        while left and left[0] == 1:
            shape.append(left.pop(0))
        for own, size in zip(wide.shape, sizes, strict=True):
            rest = size
            while rest > 1:
                inner = left.pop(0)
                shape.append(1 if own == 1 else inner)
                rest //= inner
        shape += [1] * len(left)
        return np.array(wide.reshape(shape).transpose(self.perm), order="C")


def flipped(part: Part) -> tuple[int, int] | None:
    """The rows and columns of what is made of a matrix by transposing it; None where that is not what a part does."""
    if (part.at, part.offset, len(part.runs)) != (0, 0, 2):
        return None
    (rows, step, one), (columns, unit, stride) = part.runs
    return (rows, columns) if (step, one, unit, stride) == (columns, 1, 1, rows) else None


def layouts(part: Part, leading: Sequence[int], columns: int) -> list[Layout]:
    """In which order a product would have to be for a part to be all there is to it."""
    count = math.prod(leading)
    if part.at or part.offset or part.size != count * columns:
        return []
    found = {Layout((count, columns), (1, 0)): None}
    inner = next((run.size for run in part.runs if run.stride == 1), 0)
    if 1 < inner < columns and columns % inner == 0:
        heads = columns // inner
        for k in range(len(leading)):
            sizes = math.prod(leading[:k]), math.prod(leading[k:]), heads, inner
            found[Layout(sizes, (0, 2, 1, 3))] = None
    return [layout for layout in found if layout.is_of(part)]
