"""The verbs of which operators' rules are made, the views that they take, and the makers that run rules.

A rule reads *views* of its inputs, and writes into *destinations*, which are views of its results. Its text is the same
whatever makes the results: `Maker` itself infers their sizes, `MoveMaker` makes moves between tensors of known
strides, and `ValueMaker` composes values, whose sizes may be open. No verb compares sizes, so no rule adds a
guard by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import Any, NamedTuple

from anydml.moves import number_sequences
from anydml.moves.constant import Constant
from anydml.moves.move import Access, Lookup, OutOfRange, make_tuple, unless
from anydml.moves.pieces import Factor, Piece, lookup_source, on_strides
from anydml.moves.sizing import Integers, Sizes, Sizing
from anydml.tensor import Layout

Change = Callable[[tuple[Any, ...]], tuple[Any, tuple[Any, ...]]]


class View(NamedTuple):
    """A box of a tensor's elements.

    Attributes:
        sizes: the sizes.
        access: the addresses, one stride per axis, or a fill; None if only sizes are inferred.
        element_size: bytes per element.
        dtype: NumPy's name of the elements' dtype, if they can be indices.
    """

    sizes: Sizes
    access: Any = None
    element_size: int = 0
    dtype: str = ""

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.sizes)

    def with_strides(self, n: Sizes, change: Change) -> View:
        """Return a view of other sizes; `change` maps strides to an offset and new strides (see `on_strides`)."""
        access = self.access
        if type(access) is Access:
            operand, offset, strides, lookups = access
            if lookups:
                access = on_strides(access, change)
            else:
                shift, strides = change(strides)
                access = make_tuple(Access, (operand, offset + shift, strides, ()))
        return make_tuple(View, (n, access, self.element_size, self.dtype))  # type: ignore[no-any-return]


def _alternate(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the elements of two tuples in turn."""
    alternating = [*a, *b]
    alternating[::2], alternating[1::2] = a, b
    return tuple(alternating)


def views_of(layouts: Sequence[Layout], dtypes: Sequence[str] = ()) -> list[View]:
    """Return views of the first operands, which are whole tensors; `dtypes` are the dtypes of the last of them."""
    first = len(layouts) - len(dtypes)
    return [
        make_tuple(
            View,
            (
                layout.sizes,
                make_tuple(Access, (k, 0, layout.strides, ())),
                layout.element_size,
                "" if k < first else dtypes[k - first],
            ),
        )
        for k, layout in enumerate(layouts)
    ]


class Maker(Sizing):
    """Makes results: the verbs, and their meaning for sizes.

    A result's writes are disjoint and cover it, and nothing is written twice, unless a verb says otherwise. What is
    written may be read from the destination again.

    Attributes:
        shapes: the results' sizes.
    """

    def __init__(self) -> None:
        self.shapes: list[Sizes] = []

    def cut(self, x: Any, axis: int, start: int, size: int, step: int) -> Any:
        """Cut an axis: element i is ``x[start + step · i]``; all must be in range, unless the size is 0."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            along = strides[axis]
            return along * start, (*strides[:axis], along * step, *strides[axis + 1 :])

        return x.with_strides((*x.sizes[:axis], size, *x.sizes[axis + 1 :]), change)

    def window(self, x: Any, first: Integers, count: Integers, step: Integers) -> Any:
        """Cut every axis (see `cut`)."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            return sum(map(mul, strides, first.at)), tuple(map(mul, strides, step.at))

        return x.with_strides(count.at, change)

    def at(self, x: Any, axis: int, k: int) -> Any:
        """Return the elements whose coordinate along the axis is k, without the axis."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            return strides[axis] * k, (*strides[:axis], *strides[axis + 1 :])

        return x.with_strides((*x.sizes[:axis], *x.sizes[axis + 1 :]), change)

    def permute(self, x: Any, axes: Integers) -> Any:
        """Permute the axes: axis k is x's ``axes[k]``."""
        n = x.sizes
        return x.with_strides(
            tuple([n[axis] for axis in axes.at]), lambda strides: (0, tuple([strides[axis] for axis in axes.at]))
        )

    def split(self, x: Any, axis: int, sizes: Integers) -> Any:
        """Split one axis into several, in row-major order; the product of their sizes is its size."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            new_strides, by = [], strides[axis]
            for size in reversed(sizes.at):
                new_strides.append(by)
                by = by * size
            return 0, (*strides[:axis], *reversed(new_strides), *strides[axis + 1 :])

        return x.with_strides((*x.sizes[:axis], *sizes.at, *x.sizes[axis + 1 :]), change)

    def expand(self, x: Any, axis: int, size: int) -> Any:
        """Insert an axis along which all elements are equal; a destination gets only axes of size 1."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            return 0, (*strides[:axis], 0, *strides[axis:])

        return x.with_strides((*x.sizes[:axis], size, *x.sizes[axis:]), change)

    def split_each(self, x: Any, outer: Integers, inner: Integers) -> Any:
        """Split each axis into two, of these sizes."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            return 0, _alternate(tuple(map(mul, strides, inner.at)), strides)

        return x.with_strides(_alternate(outer.at, inner.at), change)

    def expand_each(self, x: Any, sizes: Integers, behind: int) -> Any:
        """Insert an axis before each axis, or behind it if `behind` is 1 (see `expand`)."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            none = (0,) * len(strides)
            return 0, _alternate(strides, none) if behind else _alternate(none, strides)

        return x.with_strides(_alternate(x.sizes, sizes.at) if behind else _alternate(sizes.at, x.sizes), change)

    def broadcast(self, x: Any, sizes: Integers) -> Any:
        """Broadcast a view that is read, by NumPy's rules: axes are prepended, and those of size 1 repeated."""
        new_axes = sizes.count - len(x.sizes)

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            columns = zip(x.sizes, strides, sizes.at[new_axes:], strict=True)
            return 0, (*(0,) * new_axes, *[along if old == size else 0 for old, along, size in columns])

        return x.with_strides(sizes.at, change)

    def diagonal(self, x: Any, axis: int, second_axis: int) -> Any:
        """Replace two axes of equal size by one, at the first: element i is ``x[…, i, …, i, …]``."""

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            step = strides[axis] + strides[second_axis]
            return 0, (*strides[:axis], step, *strides[axis + 1 : second_axis], *strides[second_axis + 1 :])

        return x.with_strides((*x.sizes[:second_axis], *x.sizes[second_axis + 1 :]), change)

    def slide(self, x: Any, axis: int, count: int, step: int, length: int, apart: int) -> Any:
        """Replace an axis by windows: element i, j is ``x[step · i + apart · j]``; j is a new axis after i.

        The windows of a destination do not overlap.
        """

        def change(strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            along = strides[axis]
            return 0, (*strides[:axis], along * step, along * apart, *strides[axis + 1 :])

        return x.with_strides((*x.sizes[:axis], count, length, *x.sizes[axis + 1 :]), change)

    def flat(self, x: Any) -> Any:
        """Return x flattened to one axis, in row-major order; x is stored first if no single stride reads it."""
        return View((self.count(x),))

    def pick(self, x: Any, indices: Any, axis: int, outside: OutOfRange) -> Any:
        """Replace an axis by the axes of indices: element i is ``x[indices[i]]``.

        Negative indices of signed types count from the end, once. Those that are still outside are clamped, skipped,
        or refused before anything is written.
        """
        rank, count = len(x.sizes), len(indices.sizes)
        n = (*x.sizes[:axis], *indices.sizes, *x.sizes[axis + 1 :])
        if x.access is None:
            return View(n)
        if type(x.access) is Access and not x.access.lookups and not indices.access.lookups:
            operand, offset, strides, _ = x.access
            by, before, behind = indices.access, (0,) * axis, (0,) * (rank - axis - 1)
            index_strides = (*before, *by.strides, *behind)
            lookup = Lookup(by.operand, indices.dtype, by.offset, index_strides, x.sizes[axis], strides[axis], outside)
            at = Access(operand, offset, (*strides[:axis], *(0,) * count, *strides[axis + 1 :]), (lookup,))
            return View(n, at, x.element_size, x.dtype)
        piece = Piece((0,) * rank, tuple([Factor(k, size, 1) for k, size in enumerate(x.sizes)]), x.access)
        looked_up = lookup_source(piece, indices.access, axis, x.sizes[axis], indices.dtype, outside, count)
        # The indices' axes are last.
        order = (*range(axis), *range(rank - 1, rank - 1 + count), *range(axis, rank - 1))
        access = on_strides(looked_up, lambda strides: (0, tuple([strides[k] for k in order])))
        return View(n, access, x.element_size, x.dtype)

    def pick_along(self, x: Any, indices: Any, axis: int, outside: OutOfRange) -> Any:
        """Pick by one index per element: element c is ``x[c with c[axis] := indices[c]]``. See `pick`."""
        rank = len(x.sizes)
        for k in range(rank):
            if k != axis:
                x = self.cut(x, k, 0, indices.sizes[k], 1)
        x = self.pick(x, indices, axis, outside)
        # The axes before the axis, of the indices, and behind the axis: every axis but one occurs twice.
        for k in range(rank - 1, axis, -1):
            x = self.diagonal(x, axis + k, rank + k - 1)
        for k in range(axis - 1, -1, -1):
            x = self.diagonal(x, k, axis + k)
        return x

    def pick_tuples(self, x: Any, indices: Any, batch: int, outside: OutOfRange) -> Any:
        """Pick by one list of coordinates per element: element b, c, r is ``x[b, *indices[b, c], r]``. See `pick`.

        Args:
            x: the view that is read, or a destination.
            indices: at least one coordinate along the last axis, whose size is known.
            batch: number of the axes b.
            outside: treatment of indices out of range.
        """
        count = len(indices.sizes) - 1
        x = self.pick(x, self.at(indices, count, 0), batch, outside)
        for q in range(1, indices.sizes[count]):
            x = self.pick(x, self.at(indices, count, q), batch + count, outside)
            for k in range(count - 1, -1, -1):
                x = self.diagonal(x, batch + k, batch + count + k)
        for k in range(batch - 1, -1, -1):
            x = self.diagonal(x, k, batch + k)
        return x

    def unless(self, x: Any, mask: Any) -> Any:
        """Select the elements whose byte of a mask of the same sizes is 0; the others are not written."""
        if x.access is None:
            return x
        (operand, offset, strides, lookups), by = x.access, mask.access
        lookup = unless(by.operand, by.strides)._replace(offset=by.offset)
        return View(x.sizes, Access(operand, offset, strides, (*lookups, lookup)), x.element_size, x.dtype)

    def result_from(self, x: Any) -> Any:
        """Return the destination of the next result, after x was copied to it; the rule overwrites parts, in order."""
        self.shapes.append(x.sizes)
        return View(x.sizes)

    def result(self, sizes: Integers, write_sizes: Integers | None = None) -> Any:
        """Return the destination of the next result, or a view of it in `write_sizes`, in the same row-major order."""
        self.shapes.append(sizes.at)
        return View((write_sizes or sizes).at)

    def copy(self, to: Any, x: Any) -> None:
        """Write a view to a destination of the same sizes; of several elements for one address, the last one wins."""

    def filled(self, sizes: Integers, value: Any) -> Any:
        """Return a view of one element, repeated: an `Element`, or zeros if it is None."""
        return View(sizes.at)

    def fill(self, to: Any, value: Any) -> None:
        """Write one element to all of a destination: an `Element`, or zeros if it is None."""
        self.copy(to, self.filled(self.sizes(to), value))

    def constant(self, array: Constant) -> Any:
        """Return a view of numbers that depend on sizes and arguments alone."""
        return View(array.shape)

    def count_up(self, to: Any, start: Any, delta: Any) -> None:
        """Write ``start + k · delta``, two `Element`s, to a destination in row-major order."""
        self.copy(
            to, self.split(self.constant(number_sequences.sequence(start, delta, self.count(to))), 0, self.sizes(to))
        )

    def reverse(self, to: Any, x: Any, lengths: Any, axis: int) -> None:
        """Write the first elements of each row of x in reverse order, to a destination that holds x.

        Their numbers, one per row, are indices, of size 1 along the axis, and clamped.
        """
        n = x.sizes[axis]
        # Window L of the table, read backwards, is L − 1 … 0, and then out of range.
        table = self.slide(self.constant(number_sequences.reversal_table(n)), 0, n + 1, 1, n, 1)
        coordinates = self.pick(self.cut(table, 1, n - 1, n, -1), self.at(lengths, axis, 0), 0, "clamp")
        coordinates = self.permute(coordinates, self.moving(coordinates, len(coordinates.sizes) - 1, axis))
        self.copy(to, self.pick_along(x, coordinates, axis, "skip"))

    def store(self, x: Any) -> None:
        """Copy a view to the next result."""
        self.copy(self.result(Integers(x.sizes)), x)
