"""The maker of results by operators' rules as values, whose sizes may be open (see `verbs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anydml.moves.composer import Composer, ComposerWithoutScratch
from anydml.moves.constant import Constant
from anydml.moves.coordinate_strides import CoordinateSteps, in_bytes, units
from anydml.moves.move import Access, Lookup, Move, OutOfRange
from anydml.moves.move_maker import last_writes
from anydml.moves.new_axes import expand
from anydml.moves.open_numbers import has_zero, is_zero
from anydml.moves.pieces import Factor, NotComposableError, Piece
from anydml.moves.sizing import Integers, Sizes
from anydml.moves.value import MAX_PIECES, Value
from anydml.moves.verbs import Maker, View


class ValueView:
    """A view of a value (see `View`). The value may have further axes, for the parts of its elements.

    Attributes:
        value: the value.
        sizes: the sizes.
        dtype: NumPy's name of the dtype of indices.
        name: the name of the tensor that is viewed, for explanations.
        parts: number of the value's axes of parts.
    """

    __slots__ = ("dtype", "name", "parts", "sizes", "value")

    def __init__(self, value: Value, dtype: str = "", name: str = "", parts: int = 0) -> None:
        self.value, self.dtype, self.name, self.parts = value, dtype, name, parts
        self.sizes = value.sizes[: len(value.sizes) - parts] if parts else value.sizes

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.sizes)


class _Result:
    """A result: its sizes, the sizes in which the rule writes, and the values that are written, in order."""

    __slots__ = ("sizes", "write_sizes", "writes")

    def __init__(self, sizes: Sizes, write_sizes: Sizes) -> None:
        self.sizes, self.write_sizes = sizes, write_sizes
        self.writes: list[tuple[View | None, Value]] = []

    @property
    def is_overwritten(self) -> bool:
        """Whether parts of the result are overwritten, so that the result must be stored."""
        return len(self.writes) > 1 and self.writes[0][0] is None


class ValueMaker(Maker):
    """A maker that composes results from values.

    Args:
        composer: composes the values, and stores in scratch those that cannot be composed.
        element_size: bytes per element of the results.
        check: is called with the sizes of repeated elements.
        reason: why results with overwritten parts are stored.

    Attributes:
        parts: number of axes of parts of elements.
    """

    def __init__(self, composer: Composer, element_size: int, check: Callable[[Sizes], None], reason: str = "") -> None:
        super().__init__()
        self.parts = 0
        self._check = check
        self._composer = composer
        self._element_size = element_size
        self._reason = reason
        self._results: list[_Result] = []
        self._indices: list[ValueView] = []

    def value_of(self, x: Any) -> Value:
        """Return the value of a view."""
        value: Value = x.value
        return value

    def index_of(self, indices: Any) -> Value:
        """Return the value of indices, without axes of parts."""
        return self.value_of(indices)

    def _with_value(self, x: Any, value: Value) -> ValueView:
        return ValueView(value, x.dtype, x.name, x.parts)

    def cut(self, x: Any, axis: int, start: int, size: int, step: int) -> Any:
        """Cut a destination or a value."""
        if isinstance(x, View):
            return super().cut(x, axis, start, size, step)
        return self._window(
            x,
            [start if k == axis else 0 for k in range(len(x.sizes))],
            [size if k == axis else n for k, n in enumerate(x.sizes)],
            [step if k == axis else 1 for k in range(len(x.sizes))],
        )

    def window(self, x: Any, first: Integers, count: Integers, step: Integers) -> Any:
        """Cut every axis of a destination or a value."""
        if isinstance(x, View):
            return super().window(x, first, count, step)
        return self._window(x, [*first.at], [*count.at], [*step.at])

    def _window(self, x: ValueView, first: list[int], count: list[int], step: list[int]) -> Any:
        for axis, size in enumerate(count):
            if type(size) is int and not size:
                # No element is read, so the window may begin anywhere.
                first[axis], step[axis] = 0, 1
        value = self.value_of(x)
        parts = value.sizes[len(count) :]
        single = [1 if is_zero(by) else size for size, by in zip(count, step, strict=True)]
        steps = [1 if is_zero(by) else by for by in step]
        window = self._with_value(
            x,
            self._composer.slice(
                value, (*first, *[0 for _ in parts]), (*single, *parts), (*steps, *[1 for _ in parts])
            ),
        )
        return self.broadcast(window, Integers(count)) if any(is_zero(by) for by in step) else window

    def permute(self, x: Any, axes: Integers) -> Any:
        """Permute the axes of a destination or a value."""
        if isinstance(x, View):
            return super().permute(x, axes)
        value = self.value_of(x)
        return self._with_value(x, value.permute((*axes.at, *range(axes.count, len(value.sizes)))))

    def split(self, x: Any, axis: int, sizes: Integers) -> Any:
        """Split an axis of a destination or a value."""
        if isinstance(x, View):
            return super().split(x, axis, sizes)
        return self._with_value(x, self._composer.split(self.value_of(x), axis, sizes.at))

    def expand(self, x: Any, axis: int, size: int) -> Any:
        """Add an axis to a value, or to what is read of a destination."""
        self._check((*x.sizes[:axis], size, *x.sizes[axis:]))
        source = self._read(x)
        return self._with_value(source, expand(self.value_of(source), axis, size))

    def expand_each(self, x: Any, sizes: Integers, behind: int) -> Any:
        """Add axes to a value."""
        for axis in reversed(range(sizes.count)):
            x = self.expand(x, axis + behind, sizes.at[axis])
        return x

    def broadcast(self, x: Any, sizes: Integers) -> Any:
        """Broadcast a value."""
        self._check(sizes.at)
        value = self.value_of(x)
        return self._with_value(x, self._composer.broadcast(value, (*sizes.at, *value.sizes[len(x.sizes) :])))

    def diagonal(self, x: Any, axis: int, second_axis: int) -> Any:
        """Return the diagonal of a destination or a value."""
        if isinstance(x, View):
            return super().diagonal(x, axis, second_axis)
        return self._with_value(x, self._composer.diagonal(self.value_of(x), axis, second_axis))

    def slide(self, x: Any, axis: int, count: int, step: int, length: int, apart: int) -> Any:
        """Return windows of a destination or a value."""
        if isinstance(x, View):
            return super().slide(x, axis, count, step, length, apart)
        value = self.value_of(x)
        slid = self._composer.windows(value, axis, count, length, step, apart)
        axes = range(len(value.sizes))
        return self._with_value(x, slid.permute((*axes[: axis + 1], len(axes), *axes[axis + 1 :])))

    def at(self, x: Any, axis: int, k: int) -> Any:
        """Return the elements of a destination or a value at one coordinate of an axis."""
        if isinstance(x, View):
            return super().at(x, axis, k)
        value = self.value_of(self.cut(x, axis, k, 1, 1))
        return self._with_value(x, self._composer.reshape(value, (*value.sizes[:axis], *value.sizes[axis + 1 :])))

    def flat(self, x: Any) -> Any:
        """Flatten a value."""
        value = self.value_of(x)
        return self._with_value(x, self._composer.reshape(value, (self.count(x), *value.sizes[len(x.sizes) :])))

    def pick(self, x: Any, indices: Any, axis: int, outside: OutOfRange) -> Any:
        """Pick from a value, or pick destinations."""
        if outside == "error":
            self.check_refused(indices, is_place=isinstance(x, View))
        if isinstance(x, View):
            self._indices.append(indices)
            at: Any = Access(len(self._indices) - 1, CoordinateSteps({}), units(len(indices.sizes)))  # type: ignore[arg-type]
            return super().pick(x, View(indices.sizes, at, 0, indices.dtype), axis, outside)
        by = self.index_of(indices)
        return self._with_value(x, self._composer.pick(self.value_of(x), by, indices.dtype, axis, outside))

    def check_refused(self, indices: ValueView, is_place: bool) -> None:
        """Check that indices that may be refused can be read before anything moves."""

    def pick_along(self, x: Any, indices: Any, axis: int, outside: OutOfRange) -> Any:
        """Pick from a value, or pick destinations."""
        return self._compose_at_once(x, indices, lambda maker, x, by: Maker.pick_along(maker, x, by, axis, outside))

    def pick_tuples(self, x: Any, indices: Any, batch: int, outside: OutOfRange) -> Any:
        """Pick from a value, or pick destinations."""
        return self._compose_at_once(x, indices, lambda maker, x, by: Maker.pick_tuples(maker, x, by, batch, outside))

    def _compose_at_once(self, x: Any, indices: Any, pick: Callable[[Maker, Any, Any], Any]) -> Any:
        """Compose picks and diagonals as one step, since the values between them have elements that no result has."""
        if isinstance(x, View):
            return pick(self, x, indices)
        by = ValueView(self._composer.without_fills(self.index_of(indices)), indices.dtype, indices.name)
        maker = _MakerWithoutScratch(self)
        try:
            return pick(maker, x, by)
        except NotComposableError as error:
            x = self._with_value(x, self._composer.store(self.value_of(x), self.storing_reason(x, error)))
        try:
            return pick(maker, x, by)
        except NotComposableError as error:
            return pick(maker, x, self._with_value(by, self._composer.store(by.value, self.storing_reason(by, error))))

    def storing_reason(self, x: ValueView, error: NotComposableError) -> str:
        """Return the reason why a view is stored."""
        return str(error)

    def unless(self, x: Any, mask: Any) -> Any:
        """Mask a value."""
        value, by = self.value_of(x), self.index_of(mask)
        missing = len(value.sizes) - len(by.sizes)
        if missing:
            by = self._composer.broadcast(by.reshape((*by.sizes, *(1,) * missing)), value.sizes)
        return self._with_value(x, self._composer.unless(value, by, self._reason))

    def result_from(self, x: Any) -> Any:
        """Return the destination of a result that begins as a copy of x, and is stored if parts are overwritten."""
        to = self.result(Integers(x.sizes))
        self._results[-1].writes.append((None, self.value_of(x)))
        return to

    def constant(self, array: Constant) -> Any:
        """Add a constant operand."""
        return ValueView(self._composer.constant("numbers", array), array.dtype.name)

    def filled(self, sizes: Integers, value: Any) -> Any:
        """Return a view of a value that is filled with one element."""
        pattern = bytes(self._element_size) if value is None else value.pattern
        return ValueView(Value.of_fill((*sizes.at, *(1,) * self.parts), pattern), parts=self.parts)

    def result(self, sizes: Integers, write_sizes: Integers | None = None) -> Any:
        """Return the destination of the next result, addressed by coordinates."""
        result_number, written = len(self._results), write_sizes or sizes
        self._results.append(_Result(sizes.at, written.at))
        return View(written.at, Access(result_number, CoordinateSteps({}), units(written.count)))  # type: ignore[arg-type]  # in coordinates

    def copy(self, to: Any, x: Any) -> None:
        """Record what is written, and where."""
        x = self._read(x)
        result = self._results[to.access.operand]
        if not result.writes or result.writes[0][0] is not None:
            for axis, along in enumerate(to.access.strides):
                if any(type(step) is int and step < 0 for step in along.terms.values()):
                    # Steps of values are positive: both are reversed.
                    last = to.sizes[axis] - 1
                    to = self.cut(to, axis, last, to.sizes[axis], -1)
                    x = self.cut(x, axis, last, to.sizes[axis], -1)
        result.writes.append((to, self.value_of(x)))

    def store(self, x: Any) -> None:
        """Make a value the next result."""
        self.result_from(x)

    def values(self) -> list[Value]:
        """Return the results."""
        return [*map(self._value, self._results)]

    def _value(self, result: _Result) -> Value:
        if result.is_overwritten:
            value, *_ = result.writes[0][1:]
            operand, strides = self._composer.new_scratch(value, self._reason)
            self.rewrite_parts(result, operand, strides)
            return Value.of_operand(operand, result.write_sizes, strides, self._element_size)
        value = self._value_so_far(result)
        if len(value.pieces) > MAX_PIECES:
            value = self._composer.store(value, f"it would be {len(value.pieces)} pieces")
        return value if result.sizes is result.write_sizes else self._composer.reshape(value, result.sizes)

    def _value_so_far(self, result: _Result) -> Value:
        """Return what is written to a result so far, which is not overwritten."""
        if result.writes and result.writes[0][0] is None:
            return result.writes[0][1]
        values = self.with_one_element_size([value for _, value in result.writes])
        pieces: list[Piece] = []
        for (to, _), value in zip(result.writes, values, strict=True):
            if to is None:
                raise AssertionError("only the first write is of a whole result")
            pieces += [_piece_of_result(to, piece, len(result.write_sizes)) for piece in value.pieces]
        size = values[0].element_size if values else self._element_size
        parts = values[0].sizes[len(values[0].sizes) - self.parts :] if values and self.parts else (1,) * self.parts
        return Value((*result.write_sizes, *parts), size, tuple(pieces))

    def with_one_element_size(self, values: list[Value]) -> list[Value]:
        """Return values of elements of one size."""
        return values

    def rewrite_parts(self, result: _Result, operand: int, strides: Sizes) -> None:
        """Overwrite parts of a result that is stored in an operand."""
        for to, value in result.writes[1:]:
            if to is None or has_zero(to.sizes):
                continue
            parts = value.sizes[len(to.sizes) :]
            written = (
                *[in_bytes(along, strides) for along in to.access.strides],
                *[value.element_size for _ in parts],
            )
            target = Access(operand, in_bytes(to.access.offset, strides), written)
            if not to.access.lookups:
                self._composer.write(target, value)
                continue
            source = self._composer.access_of(self._composer.without_fills(value), self._reason)
            lookups = tuple([self._lookup(inner, strides, len(parts)) for inner in to.access.lookups])
            box, source = last_writes((*to.sizes, *parts), target._replace(lookups=lookups), source)
            self._composer.add(Move(box, target._replace(lookups=lookups), source, value.element_size))

    def _lookup(self, lookup: Lookup, strides: Sizes, parts: int) -> Lookup:
        """Return a lookup in bytes, by the strides of the result that is written."""
        indices = self._composer.without_fills(self.index_of(self._indices[lookup.operand]))
        access = self._composer.access_of(indices, self._reason)
        return lookup._replace(
            operand=access.operand,
            offset=access.offset + in_bytes(lookup.offset, access.strides),
            strides=(*[in_bytes(along, access.strides) for along in lookup.strides], *(0,) * parts),
            stride=in_bytes(lookup.stride, strides),
        )

    def _read(self, x: Any) -> Any:
        """Return a view that is read: the value of a destination, which must be a window of its result."""
        if isinstance(x, ValueView):
            return x
        starts = [x.access.offset.terms.get(axis, 0) for axis in range(len(x.sizes))]
        steps = [along.terms[axis] for axis, along in enumerate(x.access.strides)]
        written = ValueView(self._value_so_far(self._results[x.access.operand]), parts=self.parts)
        return self._window(written, starts, [*x.sizes], steps)


class _MakerWithoutScratch(ValueMaker):
    """Views without storing what cannot be composed.

    Raises:
        NotComposableError: a view cannot be composed.
    """

    def __init__(self, maker: ValueMaker) -> None:
        super().__init__(ComposerWithoutScratch(maker._composer), maker._element_size, maker._check)
        self.parts = maker.parts
        self.check_refused = maker.check_refused  # type: ignore[method-assign]


def _piece_of_result(to: View, piece: Piece, rank: int) -> Piece:
    """Convert a piece of a value that is written to a destination into a piece of the result, which has rank `rank`."""
    access, own_rank = to.access, len(to.sizes)
    steps = [next(iter(along.terms.items())) for along in access.strides]
    start = [access.offset.terms.get(axis, 0) for axis in range(rank)]
    for first, (axis, step) in zip(piece.start, steps, strict=False):
        start[axis] += first * step
    factors = []
    for old_axis, size, step in piece.factors:
        axis, by = steps[old_axis] if old_axis < own_rank else (rank + old_axis - own_rank, 1)
        factors.append(Factor(axis, size, step * by))
    return Piece((*start, *piece.start[own_rank:]), tuple(factors), piece.source)
