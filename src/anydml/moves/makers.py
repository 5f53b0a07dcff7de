"""Makers of results by operators' rules: moves between tensors of known strides, and values (see `verbs`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.moves.compose import Composer
from anydml.moves.constant import Constant
from anydml.moves.coordinates import Steps, units
from anydml.moves.move import Access, Move, Outside
from anydml.moves.new_axes import expand
from anydml.moves.pieces import Factor, Piece
from anydml.moves.value import MOST_PIECES, Value
from anydml.moves.verbs import Maker, Numbers, Sizes, View, new
from anydml.tensor import Layout


class MoveMaker(Maker):
    """Writes results at once, as moves.

    Args:
        first: operand number of the first result.
        layouts: the results' layouts, of the sizes that the rule makes; the constants follow them.

    Attributes:
        moves: what is written, in order. Boxes without elements are left out.
        constants: what is read beside the inputs.
    """

    def __init__(self, first: int, layouts: Sequence[Layout]) -> None:
        super().__init__()
        self.moves: list[Move] = []
        self.constants: list[Constant] = []
        self._number, self._layouts = first, iter(layouts)
        self._constant = first + len(layouts)

    def result(self, sizes: Numbers) -> Any:
        """The next operand."""
        return self._next()

    def store(self, x: Any) -> None:
        """The next operand is a view."""
        self.copy(self._next(), x)

    def _next(self) -> View:
        layout = next(self._layouts)
        self._number += 1
        access = new(Access, (self._number - 1, 0, layout.strides, ()))
        return new(View, (layout.sizes, access, layout.element_size, ""))  # type: ignore[no-any-return]

    def copy(self, to: Any, x: Any) -> None:
        """Add a move."""
        n = to.n
        if 0 not in n:
            self.moves.append(new(Move, (n, to.access, x.access, to.element_size)))

    def constant(self, array: Constant) -> Any:
        """Add a constant operand."""
        self.constants.append(array)
        self._constant += 1
        return View(array.shape, Access(self._constant - 1, 0, array.strides), array.dtype.itemsize, array.dtype.name)


class Lazy:
    """A view of a value (see `View`)."""

    __slots__ = ("dtype", "n", "value")

    def __init__(self, value: Value, dtype: str = "") -> None:
        self.value = value
        self.n = value.sizes
        self.dtype = dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.n)


class _Result(NamedTuple):
    """A result's sizes, and what is written to it."""

    sizes: Sizes
    writes: list[tuple[View, Value]]


class ValueMaker(Maker):
    """Composes results of values.

    Args:
        composer: composes the values, and stores in scratch those that cannot be composed.
        check: is called with sizes that elements are repeated to.
    """

    def __init__(self, composer: Composer, check: Callable[[Sizes], None]) -> None:
        super().__init__()
        self._check = check
        self._composer = composer
        self._results: list[_Result] = []

    def cut(self, x: Any, axis: int, start: int, size: int, step: int) -> Any:
        """Cut a place or a value."""
        if isinstance(x, View):
            return super().cut(x, axis, start, size, step)
        return self._window(
            x,
            [start if k == axis else 0 for k in range(len(x.n))],
            [size if k == axis else n for k, n in enumerate(x.n)],
            [step if k == axis else 1 for k in range(len(x.n))],
        )

    def window(self, x: Any, first: Numbers, count: Numbers, step: Numbers) -> Any:
        """Cut every axis of a place or a value."""
        if isinstance(x, View):
            return super().window(x, first, count, step)
        return self._window(x, [*first.at], [*count.at], [*step.at])

    def _window(self, x: Lazy, first: list[int], count: list[int], step: list[int]) -> Lazy:
        for axis, size in enumerate(count):
            if type(size) is int and not size:
                # No element is read, so the window may begin anywhere.
                first[axis], step[axis] = 0, 1
        return Lazy(self._composer.slice(x.value, first, count, step))

    def permute(self, x: Any, axes: Numbers) -> Any:
        """Permute the axes of a place or a value."""
        return super().permute(x, axes) if isinstance(x, View) else Lazy(x.value.permute(axes.at))

    def split(self, x: Any, axis: int, sizes: Numbers) -> Any:
        """Split an axis of a place or a value."""
        if isinstance(x, View):
            return super().split(x, axis, sizes)
        return Lazy(self._composer.split(x.value, axis, sizes.at))

    def expand(self, x: Any, axis: int, size: int) -> Any:
        """Add an axis to a value."""
        self._check((*x.n[:axis], size, *x.n[axis:]))
        return Lazy(expand(x.value, axis, size))

    def expand_each(self, x: Any, sizes: Numbers, behind: int) -> Any:
        """Add axes to a value."""
        for axis in reversed(range(sizes.count)):
            x = self.expand(x, axis + behind, sizes.at[axis])
        return x

    def broadcast(self, x: Any, sizes: Numbers) -> Any:
        """Broadcast a value."""
        self._check(sizes.at)
        return Lazy(self._composer.broadcast(x.value, sizes.at))

    def diagonal(self, x: Any, axis: int, other: int) -> Any:
        """The diagonal of a value."""
        return Lazy(self._composer.diagonal(x.value, axis, other))

    def pick(self, x: Any, indices: Any, axis: int, outside: Outside) -> Any:
        """Pick from a value."""
        return Lazy(self._composer.pick(x.value, indices.value, indices.dtype, axis, outside))

    def constant(self, array: Constant) -> Any:
        """Add a constant operand."""
        known = np.asarray(array)
        return Lazy(self._composer.constant("numbers", known), known.dtype.name)

    def result(self, sizes: Numbers) -> Any:
        """A place in coordinates."""
        number = len(self._results)
        self._results.append(_Result(sizes.at, []))
        return View(sizes.at, Access(number, Steps({}), units(sizes.count)))  # type: ignore[arg-type]  # in coordinates

    def copy(self, to: Any, x: Any) -> None:
        """Remember what is written."""
        self._results[to.access.operand].writes.append((to, x.value))

    def store(self, x: Any) -> None:
        """The next result is a value."""
        self._results.append(_Result(x.n, [(View(x.n), x.value)]))

    def values(self) -> list[Value]:
        """Return the results."""
        return [*map(self._value, self._results)]

    def _value(self, result: _Result) -> Value:
        whole, first = result.writes[0]
        if whole.access is None:
            return first
        pieces = [_placed(to, piece, len(result.sizes)) for to, value in result.writes for piece in value.pieces]
        value = Value(result.sizes, first.element_size, tuple(pieces))
        return (
            value if len(pieces) <= MOST_PIECES else self._composer.stored(value, f"it would be {len(pieces)} pieces")
        )


def _placed(to: View, piece: Piece, rank: int) -> Piece:
    """Return a piece of what is written to a place as a piece of its result, which has `rank` axes."""
    access = to.access
    steps = [next(iter(along.terms.items())) for along in access.strides]
    start = [access.offset.terms.get(axis, 0) for axis in range(rank)]
    for first, (axis, step) in zip(piece.start, steps, strict=True):
        start[axis] += first * step
    factors = []
    for own, size, step in piece.factors:
        axis, by = steps[own]
        factors.append(Factor(axis, size, step * by))
    return Piece(tuple(start), tuple(factors), piece.source)
