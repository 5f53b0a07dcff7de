"""The maker of results by operators' rules as values, whose sizes may be open (see `verbs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.moves.compose import Composer, Raising
from anydml.moves.constant import Constant
from anydml.moves.coordinates import Steps, units
from anydml.moves.makers import last_written
from anydml.moves.move import Access, Lookup, Move, Outside
from anydml.moves.new_axes import expand
from anydml.moves.open_numbers import are_none, is_none
from anydml.moves.pieces import Factor, NotComposableError, Piece
from anydml.moves.sizing import Numbers, Sizes
from anydml.moves.value import MOST_PIECES, Value
from anydml.moves.verbs import Maker, View


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

    def typed(self, dtype: str) -> Lazy:
        """Return the view of indices of a dtype."""
        return Lazy(self.value, dtype)


class _Result:
    """A result: its sizes, those in which it is made, and what is written to it, in order."""

    __slots__ = ("made", "sizes", "writes")

    def __init__(self, sizes: Sizes, made: Sizes) -> None:
        self.sizes, self.made = sizes, made
        self.writes: list[tuple[View | None, Value]] = []


class ValueMaker(Maker):
    """Composes results of values.

    Args:
        composer: composes the values, and stores in scratch those that cannot be composed.
        element_size: bytes per element of the results.
        check: is called with sizes that elements are repeated to.
        reason: why results are stored of which parts are written again.
    """

    def __init__(
        self, composer: Composer | Raising, element_size: int, check: Callable[[Sizes], None], reason: str = ""
    ) -> None:
        super().__init__()
        self._reason = reason
        self._indices: list[Lazy] = []
        self._check = check
        self._composer = composer
        self._element_size = element_size
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

    def _window(self, x: Lazy, first: list[int], count: list[int], step: list[int]) -> Any:
        for axis, size in enumerate(count):
            if type(size) is int and not size:
                # No element is read, so the window may begin anywhere.
                first[axis], step[axis] = 0, 1
        if not any(is_none(by) for by in step):
            return Lazy(self._composer.slice(x.value, first, count, step), x.dtype)
        single = [1 if is_none(by) else size for size, by in zip(count, step, strict=True)]
        found = self._composer.slice(x.value, first, single, [1 if is_none(by) else by for by in step])
        return self.broadcast(Lazy(found, x.dtype), Numbers(count))

    def permute(self, x: Any, axes: Numbers) -> Any:
        """Permute the axes of a place or a value."""
        return super().permute(x, axes) if isinstance(x, View) else Lazy(x.value.permute(axes.at), x.dtype)

    def split(self, x: Any, axis: int, sizes: Numbers) -> Any:
        """Split an axis of a place or a value."""
        if isinstance(x, View):
            return super().split(x, axis, sizes)
        return Lazy(self._composer.split(x.value, axis, sizes.at), x.dtype)

    def expand(self, x: Any, axis: int, size: int) -> Any:
        """Add an axis to a value, or to what is read of a place."""
        self._check((*x.n[:axis], size, *x.n[axis:]))
        return Lazy(expand(self._read(x), axis, size), x.dtype)

    def expand_each(self, x: Any, sizes: Numbers, behind: int) -> Any:
        """Add axes to a value."""
        for axis in reversed(range(sizes.count)):
            x = self.expand(x, axis + behind, sizes.at[axis])
        return x

    def broadcast(self, x: Any, sizes: Numbers) -> Any:
        """Broadcast a value."""
        self._check(sizes.at)
        return Lazy(self._composer.broadcast(x.value, sizes.at), x.dtype)

    def diagonal(self, x: Any, axis: int, other: int) -> Any:
        """The diagonal of a place or a value."""
        if isinstance(x, View):
            return super().diagonal(x, axis, other)
        return Lazy(self._composer.diagonal(x.value, axis, other), x.dtype)

    def slide(self, x: Any, axis: int, count: int, step: int, length: int, apart: int) -> Any:
        """Windows of a place or a value."""
        if isinstance(x, View):
            return super().slide(x, axis, count, step, length, apart)
        found = Lazy(self._composer.windows(x.value, axis, count, length, step, apart), x.dtype)
        return self.permute(found, self.moving(found, x.rank, axis + 1))

    def at(self, x: Any, axis: int, k: int) -> Any:
        """A coordinate of a place or a value."""
        if isinstance(x, View):
            return super().at(x, axis, k)
        return Lazy(self._composer.reshape(self.cut(x, axis, k, 1, 1).value, (*x.n[:axis], *x.n[axis + 1 :])), x.dtype)

    def flat(self, x: Any) -> Any:
        """Flatten a value."""
        return Lazy(self._composer.reshape(x.value, (self.count(x),)), x.dtype)

    def pick(self, x: Any, indices: Any, axis: int, outside: Outside) -> Any:
        """Pick places or from a value."""
        if isinstance(x, View):
            if outside == "refuse":
                self.check_refused(indices, is_place=True)
            self._indices.append(indices)
            at: Any = Access(len(self._indices) - 1, Steps({}), units(len(indices.n)))  # type: ignore[arg-type]
            return super().pick(x, View(indices.n, at, 0, indices.dtype), axis, outside)
        if outside == "refuse":
            self.check_refused(indices, is_place=False)
        return Lazy(self._composer.pick(x.value, indices.value, indices.dtype, axis, outside), x.dtype)

    def check_refused(self, indices: Lazy, is_place: bool) -> None:
        """Check that indices that may be refused can be read before anything moves."""

    def along(self, x: Any, indices: Any, axis: int, outside: Outside) -> Any:
        """Pick places or from a value."""
        return self._whole(x, indices, lambda make, x, by: Maker.along(make, x, by, axis, outside))

    def tuples(self, x: Any, indices: Any, batch: int, outside: Outside) -> Any:
        """Pick places or from a value."""
        return self._whole(x, indices, lambda make, x, by: Maker.tuples(make, x, by, batch, outside))

    def _whole(self, x: Any, indices: Any, pick: Callable[[Maker, Any, Any], Any]) -> Any:
        """Compose several picks and diagonals as one: what is between them has elements that no result has."""
        if isinstance(x, View):
            return pick(self, x, indices)
        by = Lazy(self._composer.without_fills(indices.value), indices.dtype)
        make = _Direct(self)
        try:
            return pick(make, x, by)
        except NotComposableError as error:
            x = Lazy(self._composer.stored(x.value, str(error)))
        try:
            return pick(make, x, by)
        except NotComposableError as error:
            return pick(make, x, Lazy(self._composer.stored(by.value, str(error)), by.dtype))

    def unless(self, x: Any, mask: Any) -> Any:
        """Mask a value."""
        return Lazy(self._composer.unless(x.value, mask.value, self._reason))

    def updated(self, x: Any) -> Any:
        """A place in coordinates of a result that is stored, if it is written again."""
        to = self.result(Numbers(x.n))
        self._results[-1].writes.append((None, x.value))
        return to

    def constant(self, array: Constant) -> Any:
        """Add a constant operand."""
        known = np.asarray(array)
        return Lazy(self._composer.constant("numbers", known), known.dtype.name)

    def filled(self, sizes: Numbers, value: Any) -> Any:
        """A value of fills."""
        return Lazy(Value.filled(sizes.at, bytes(self._element_size) if value is None else value.pattern))

    def result(self, sizes: Numbers, made: Numbers | None = None) -> Any:
        """A place in coordinates."""
        number, own = len(self._results), made or sizes
        self._results.append(_Result(sizes.at, own.at))
        return View(own.at, Access(number, Steps({}), units(own.count)))  # type: ignore[arg-type]  # in coordinates

    def copy(self, to: Any, x: Any) -> None:
        """Remember what is written."""
        value = self._read(x)
        result = self._results[to.access.operand]
        if result.writes and result.writes[0][0] is None:
            result.writes.append((to, value))
            return
        for axis, along in enumerate(to.access.strides):
            if any(type(step) is int and step < 0 for step in along.terms.values()):
                # Steps of values are positive: both are reversed.
                last = to.n[axis] - 1
                to = super().cut(to, axis, last, to.n[axis], -1)
                value = self.cut(Lazy(value), axis, last, to.n[axis], -1).value
        result.writes.append((to, value))

    def store(self, x: Any) -> None:
        """The next result is a value."""
        result = _Result(x.n, x.n)
        result.writes.append((None, x.value))
        self._results.append(result)

    def values(self) -> list[Value]:
        """Return the results."""
        return [*map(self._value, self._results)]

    def _value(self, result: _Result) -> Value:
        value = self._written(result)
        if len(value.pieces) > MOST_PIECES:
            value = self._composer.stored(value, f"it would be {len(value.pieces)} pieces")
        return value if result.sizes is result.made else self._composer.reshape(value, result.sizes)

    def _written(self, result: _Result) -> Value:
        """Return what is written to a result so far."""
        if not result.writes:
            return Value(result.made, self._element_size, ())
        if result.writes[0][0] is None:
            return result.writes[0][1] if len(result.writes) == 1 else self._stored(result)
        pieces = []
        for to, value in result.writes:
            if to is None:
                raise AssertionError("only the first write is of a whole result")
            pieces += [_placed(to, piece, len(result.made)) for piece in value.pieces]
        return Value(result.made, self._element_size, tuple(pieces))

    def _stored(self, result: _Result) -> Value:
        """Store a result, and write parts of it again."""
        operand, strides = self._composer.begun(result.writes[0][1], self._reason)
        for to, value in result.writes[1:]:
            if to is None or are_none(to.n):
                continue
            steps = tuple([_bytes(along, strides) for along in to.access.strides])
            target = Access(operand, _bytes(to.access.offset, strides), steps)
            if not to.access.lookups:
                self._composer.write(target, value)
                continue
            source = self._composer.access_of(self._composer.without_fills(value), self._reason)
            target = target._replace(lookups=tuple([self._lookup(each, strides) for each in to.access.lookups]))
            box, source = last_written(to.n, target, source)
            self._composer.add(Move(box, target, source, self._element_size))
        return Value.stored(operand, result.made, strides, self._element_size)

    def _lookup(self, lookup: Lookup, strides: Sizes) -> Lookup:
        """Return a lookup in bytes, by the strides of the result that is written."""
        indices = self._composer.without_fills(self._indices[lookup.operand].value)
        found = self._composer.access_of(indices, self._reason)
        own = tuple([_bytes(along, found.strides) for along in lookup.strides])
        offset = found.offset + _bytes(lookup.offset, found.strides)
        return lookup._replace(operand=found.operand, offset=offset, strides=own, stride=_bytes(lookup.stride, strides))

    def _read(self, x: Any) -> Value:
        """Return a value, or what is written to a place, which must be a window of its result."""
        if isinstance(x, Lazy):
            return x.value
        starts = [x.access.offset.terms.get(axis, 0) for axis in range(len(x.n))]
        steps = [along.terms[axis] for axis, along in enumerate(x.access.strides)]
        found: Value = self._window(Lazy(self._written(self._results[x.access.operand])), starts, [*x.n], steps).value
        return found


class _Direct(ValueMaker):
    """Views without storing what cannot be composed.

    Raises:
        NotComposableError: a view cannot be composed.
    """

    def __init__(self, make: ValueMaker) -> None:
        super().__init__(Raising(make._composer), make._element_size, make._check)
        self.check_refused = make.check_refused  # type: ignore[method-assign]


def _bytes(steps: Any, strides: Sizes) -> Any:
    """Convert a stride or an offset in coordinates to bytes."""
    return sum([count * strides[axis] for axis, count in steps.terms.items()]) if isinstance(steps, Steps) else steps


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
