"""The verbs of which operators' rules are made, on what moves describe: views, and the makers of results from them.

A rule reads *views* of its inputs, and writes into *places*, which are views of its results. Its text is the same
whatever makes the results: `Maker` alone infers their sizes, `makers.MoveMaker` makes moves between tensors of known
strides, and `makers.ValueMaker` composes values, whose sizes may be open. No verb compares sizes, so no rule adds a
guard by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any, NamedTuple

from anydml.moves.constant import Constant
from anydml.moves.move import Access, Outside
from anydml.moves.pieces import Factor, Piece, lookup_source, on_strides
from anydml.tensor import Layout

Sizes = tuple[int, ...]
Change = Callable[[tuple[Any, ...]], tuple[Any, tuple[Any, ...]]]


class Numbers:
    """Integers of a rule: ``at[k]`` for each k below ``count``. Compiled, they are numbers in the call's memory."""

    __slots__ = ("at", "count")

    def __init__(self, numbers: Sequence[int]) -> None:
        self.at = tuple(numbers)
        self.count = len(self.at)


class View(NamedTuple):
    """A box of a tensor's elements.

    Attributes:
        n: the sizes.
        access: the addresses, one stride per axis; None if only sizes are inferred.
        element_size: bytes per element.
        dtype: NumPy's name of the elements' dtype, if they can be indices.
    """

    n: Sizes
    access: Any = None
    element_size: int = 0
    dtype: str = ""

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.n)

    def seen(self, n: Sizes, change: Change) -> View:
        """Return a view of other sizes; `change` maps strides to an offset and new strides (see `on_strides`)."""
        access = self.access
        if access is not None:
            operand, offset, strides, lookups = access
            if lookups:
                access = on_strides(access, change)
            else:
                shift, strides = change(strides)
                access = new(Access, (operand, offset + shift, strides, ()))
        return new(View, (n, access, self.element_size, self.dtype))  # type: ignore[no-any-return]


new: Any = tuple.__new__
"""Makes named tuples in half the time of their own constructors: descs may have thousands of parts."""


def _woven(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return elements of one and of the other in turn."""
    found = [*a, *b]
    found[::2], found[1::2] = a, b
    return tuple(found)


def views_of(layouts: Sequence[Layout]) -> list[View]:
    """Return the views of whole tensors, which are the first operands."""
    return [
        new(View, (layout.sizes, new(Access, (k, 0, layout.strides, ())), layout.element_size, ""))
        for k, layout in enumerate(layouts)
    ]


class Maker:
    """Makes results: the verbs, and their meaning for sizes.

    A result's writes are disjoint and cover it, and nothing is written twice, unless a verb says otherwise.

    Attributes:
        shapes: the results' sizes.
    """

    def __init__(self) -> None:
        self.shapes: list[Sizes] = []

    def cut(self, x: Any, axis: int, start: int, size: int, step: int) -> Any:
        """Element i along the axis is ``x[start + step · i]``; all must be in range, unless the size is 0."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            along = strides[axis]
            return along * start, (*strides[:axis], along * step, *strides[axis + 1 :])

        return x.seen((*x.n[:axis], size, *x.n[axis + 1 :]), change)

    def window(self, x: Any, first: Numbers, count: Numbers, step: Numbers) -> Any:
        """A cut of every axis."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            return sum(map(mul, strides, first.at)), tuple(map(mul, strides, step.at))

        return x.seen(count.at, change)

    def ints(self, *numbers: int) -> Numbers:
        """Sizes of a rule's own."""
        return Numbers(numbers)

    def count(self, x: Any) -> int:
        """The number of x's elements."""
        return math.prod(x.n)

    def product(self, a: Numbers, b: Numbers) -> Numbers:
        """The products of numbers, one by one."""
        return Numbers(tuple(map(mul, a.at, b.at)))

    def sizes(self, x: Any) -> Numbers:
        """X's sizes."""
        return Numbers(x.n)

    def resized(self, x: Any, axis: int, size: int) -> Numbers:
        """X's sizes with another one along an axis."""
        return Numbers((*x.n[:axis], size, *x.n[axis + 1 :]))

    def inserted(self, x: Any, axis: int, size: int) -> Numbers:
        """X's sizes with one more before an axis."""
        return Numbers((*x.n[:axis], size, *x.n[axis:]))

    def at(self, x: Any, axis: int, k: int) -> Any:
        """The elements whose coordinate along the axis is k, without the axis."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            return strides[axis] * k, (*strides[:axis], *strides[axis + 1 :])

        return x.seen((*x.n[:axis], *x.n[axis + 1 :]), change)

    def permute(self, x: Any, axes: Numbers) -> Any:
        """Axis k is x's ``axes[k]``."""
        n = x.n
        return x.seen(
            tuple([n[axis] for axis in axes.at]), lambda strides: (0, tuple([strides[axis] for axis in axes.at]))
        )

    def split(self, x: Any, axis: int, sizes: Numbers) -> Any:
        """One axis as several, in row-major order; their product is its size."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            found, by = [], strides[axis]
            for size in reversed(sizes.at):
                found.append(by)
                by = by * size
            return 0, (*strides[:axis], *reversed(found), *strides[axis + 1 :])

        return x.seen((*x.n[:axis], *sizes.at, *x.n[axis + 1 :]), change)

    def expand(self, x: Any, axis: int, size: int) -> Any:
        """A new axis before an axis, on which nothing depends; of a place, its size is 1."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            return 0, (*strides[:axis], 0, *strides[axis:])

        return x.seen((*x.n[:axis], size, *x.n[axis:]), change)

    def split_each(self, x: Any, outer: Numbers, inner: Numbers) -> Any:
        """Each axis as two, of these sizes."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            return 0, _woven(tuple(map(mul, strides, inner.at)), strides)

        return x.seen(_woven(outer.at, inner.at), change)

    def expand_each(self, x: Any, sizes: Numbers, behind: int) -> Any:
        """A new axis for each axis, before it, or behind it if `behind` is 1 (see `expand`)."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            none = (0,) * len(strides)
            return 0, _woven(strides, none) if behind else _woven(none, strides)

        return x.seen(_woven(x.n, sizes.at) if behind else _woven(sizes.at, x.n), change)

    def broadcast(self, x: Any, sizes: Numbers) -> Any:
        """NumPy's broadcasting: axes are prepended, and those of size 1 repeated. Only of what is read."""
        more = sizes.count - len(x.n)

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            each = zip(x.n, strides, sizes.at[more:], strict=True)
            return 0, (*(0,) * more, *[along if own == size else 0 for own, along, size in each])

        return x.seen(sizes.at, change)

    def diagonal(self, x: Any, axis: int, other: int) -> Any:
        """One axis, the first, in place of two of equal size: element i is ``x[…, i, …, i, …]``."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            both = strides[axis] + strides[other]
            return 0, (*strides[:axis], both, *strides[axis + 1 : other], *strides[other + 1 :])

        return x.seen((*x.n[:other], *x.n[other + 1 :]), change)

    def pick(self, x: Any, indices: Any, axis: int, outside: Outside) -> Any:
        """The axes of indices in place of an axis: element i is ``x[indices[i]]``.

        Negative indices of signed types count from the end, once. Those that are still outside are clamped, skipped,
        or refused before anything is written.
        """
        rank, count = len(x.n), len(indices.n)
        n = (*x.n[:axis], *indices.n, *x.n[axis + 1 :])
        if x.access is None:
            return View(n)
        piece = Piece((0,) * rank, tuple([Factor(k, size, 1) for k, size in enumerate(x.n)]), x.access)
        found = lookup_source(piece, indices.access, axis, x.n[axis], indices.dtype, outside, count)
        # The indices' axes are last.
        order = (*range(axis), *range(rank - 1, rank - 1 + count), *range(axis, rank - 1))
        access = on_strides(found, lambda strides: (0, tuple([strides[k] for k in order])))
        return View(n, access, x.element_size, x.dtype)

    def result(self, sizes: Numbers) -> Any:
        """The place of the next result."""
        self.shapes.append(sizes.at)
        return View(sizes.at)

    def copy(self, to: Any, x: Any) -> None:
        """Write a view to a place of the same sizes."""

    def constant(self, array: Constant) -> Any:
        """A view of numbers that depend on sizes and arguments alone."""
        return View(array.shape)

    def store(self, x: Any) -> None:
        """The next result is a view."""
        self.copy(self.result(Numbers(x.n)), x)
