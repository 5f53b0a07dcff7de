"""Pieces of a value: boxes of elements, described by factors, and their sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from anydml.moves.move import Access, Fill, Lookup, OutOfRange, make_tuple
from anydml.moves.open_numbers import are_same, is_one, is_zero, value_of

Source = TypeVar("Source", Access, Fill, Access | Fill)


class NotComposableError(Exception):
    """An operation needs its value stored first. The text is the reason."""


class Factor(NamedTuple):
    """Part of an axis: `size` elements, `step` apart along `axis` of the value."""

    axis: int
    size: int
    step: int


class Piece(NamedTuple):
    """A box of elements of a value, and their source.

    Attributes:
        start: coordinate of the first element, one number per axis of the value.
        factors: the box; `source` and its lookups have one stride per factor.
        source: the access or fill that provides the elements.
    """

    start: tuple[int, ...]
    factors: tuple[Factor, ...]
    source: Access | Fill


def on_strides(source: Source, change: Callable[[tuple[int, ...]], tuple[int, tuple[int, ...]]]) -> Source:
    """Replace the strides of an access and of its lookups: `change` maps strides to an offset to add, and strides."""
    if isinstance(source, Fill):
        return source
    if not source.lookups:
        shift, strides = change(source.strides)
        return make_tuple(Access, (source.operand, source.offset + shift, strides, ()))  # type: ignore[no-any-return]

    def changed(access: Access | Lookup) -> tuple[int, tuple[int, ...], tuple[Lookup, ...]]:
        shift, strides = change(access.strides)
        lookups = []
        for lookup in access.lookups:
            offset, new_strides, inner = changed(lookup)
            lookups.append(lookup._replace(offset=offset, strides=new_strides, lookups=inner))
        return access.offset + shift, strides, tuple(lookups)

    return Access(source.operand, *changed(source))


def with_zero_strides(source: Source, count: int) -> Source:
    """Append `count` factors of stride 0 to a source."""
    return on_strides(source, lambda strides: (0, (*strides, *(0,) * count)))


def source_by_factors(piece: Piece, keep: Callable[[Factor], bool]) -> Access | Fill:
    """Return a piece's source restricted to the kept factors; all other factors are at coordinate 0."""
    remaining = [k for k, factor in enumerate(piece.factors) if keep(factor)]
    return on_strides(piece.source, lambda strides: (0, tuple(strides[k] for k in remaining)))


def other_factors(piece: Piece, axis: int) -> tuple[Factor, ...]:
    """Return the factors of all axes but one."""
    return tuple(factor for factor in piece.factors if factor.axis != axis)


def is_whole(piece: Piece, axis: int, size: int) -> bool:
    """Whether a piece covers an axis of this size by at most one factor."""
    factors = [factor for factor in piece.factors if factor.axis == axis and not is_one(factor.size)]
    if not is_zero(piece.start[axis]) or len(factors) > 1:
        return False
    return is_one(factors[0].step) and are_same(factors[0].size, size) if factors else is_one(size)


def is_whole_by_comparison(piece: Piece, axis: int, size: int) -> bool:
    """Whether a piece `is_whole`, decided by comparisons if it is not known."""
    if is_whole(piece, axis, size):
        return True
    factors = [factor for factor in piece.factors if factor.axis == axis and not is_one(factor.size)]
    return not piece.start[axis] and (factors == [Factor(axis, size, 1)] if factors else size == 1)


def tidy(piece: Piece) -> Piece:
    """Drop factors of size 1 and merge adjacent factors that are contiguous in the value and in the source."""
    axes = [factor.axis for factor in piece.factors]
    if not any(is_one(factor.size) for factor in piece.factors) and len({*axes}) == len(axes):
        return piece

    def is_dropped(factor: Factor) -> bool:
        return is_one(factor.size) or (axes.count(factor.axis) > 1 and value_of(factor.size) == 1 and factor.size == 1)

    order = sorted(
        (k for k, f in enumerate(piece.factors) if not is_dropped(f)),
        key=lambda k: (piece.factors[k].axis, -piece.factors[k].step),
    )
    result = Piece(
        piece.start,
        tuple(piece.factors[k] for k in order),
        on_strides(piece.source, lambda strides: (0, tuple(strides[k] for k in order))),
    )
    k = 0
    while k + 1 < len(result.factors):
        outer, inner = result.factors[k], result.factors[k + 1]
        is_contiguous = outer.axis == inner.axis and outer.step == inner.step * inner.size
        if is_contiguous and all(
            strides[k] == strides[k + 1] * inner.size for strides in _every_strides(result.source)
        ):
            factors = (
                *result.factors[:k],
                Factor(inner.axis, outer.size * inner.size, inner.step),
                *result.factors[k + 2 :],
            )
            source = on_strides(result.source, lambda strides, k=k: (0, (*strides[:k], *strides[k + 1 :])))  # type: ignore[misc]
            result = Piece(result.start, factors, source)
        else:
            k += 1
    return result


def _every_strides(source: Access | Fill | Lookup) -> Iterator[tuple[int, ...]]:
    """Yield the strides of a source and of every lookup in it."""
    if not isinstance(source, Fill):
        yield source.strides
        for lookup in source.lookups:
            yield from _every_strides(lookup)


def slice_whole_axis(piece: Piece, axis: int, start: int, size: int, step: int) -> Piece:
    """Slice an axis that a piece covers as a whole (see `is_whole`)."""
    places = [k for k, factor in enumerate(piece.factors) if factor.axis == axis and not is_one(factor.size)]
    if not places:
        factors, source = (*piece.factors, Factor(axis, size, 1)), with_zero_strides(piece.source, 1)
        return piece if is_one(size) else Piece(piece.start, factors, source)
    k = places[0]

    def sliced(strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        return start * strides[k], (*strides[:k], step * strides[k], *strides[k + 1 :])

    factors = (*piece.factors[:k], make_tuple(Factor, (axis, size, 1)), *piece.factors[k + 1 :])
    return make_tuple(Piece, (piece.start, factors, on_strides(piece.source, sliced)))  # type: ignore[no-any-return]


def with_unit_axes(piece: Piece, positions: dict[int, int], rank: int, is_only: bool) -> Piece:
    """Move a piece to a value of another rank.

    Old axes without an entry in `positions`, and new axes that get none, have size 1.

    Args:
        piece: the piece.
        positions: the new axis of each old one that remains.
        rank: the number of new axes.
        is_only: whether the piece covers the whole value. Of several pieces, one with an open size may be empty.

    Raises:
        NotComposableError: the piece may be empty, and no axis is left to express that.
    """
    source, new_axes = piece.source, positions
    if any(factor.axis not in positions for factor in piece.factors):
        kept_factors = (
            () if is_only else [f.axis for f in piece.factors if f.axis not in positions and not is_one(f.size)]
        )
        if kept_factors and not rank:
            raise NotComposableError("one of its pieces may be empty")
        new_axes = {**positions, **dict.fromkeys(kept_factors, 0)}
        source = source_by_factors(piece, lambda factor: factor.axis in new_axes)
    start = [0] * rank
    for old, position in positions.items():
        start[position] = piece.start[old]
    remaining = [factor for factor in piece.factors if factor[0] in new_axes]
    factors = tuple([make_tuple(Factor, (new_axes[axis], size, step)) for axis, size, step in remaining])
    return make_tuple(Piece, (tuple(start), factors, source))  # type: ignore[no-any-return]


def lookup_source(
    piece: Piece, index: Access, axis: int, size: int, dtype: str, outside: OutOfRange, count: int
) -> Access | Fill:
    """Return the source of a piece after one of its axes is replaced by a lookup.

    Args:
        piece: the piece, in which the axis has at most one factor of size above 1.
        index: source of the indices.
        axis: the axis.
        size: the size of that axis.
        dtype: NumPy's name of the indices' dtype.
        outside: treatment of indices out of range.
        count: number of factors of the indices, which are appended to those of the other axes.
    """
    if isinstance(piece.source, Fill):
        return piece.source
    kept_factors = [k for k, factor in enumerate(piece.factors) if factor.axis != axis]
    replaced = next((k for k, f in enumerate(piece.factors) if f.axis == axis and not is_one(f.size)), None)
    zeros = (0,) * len(kept_factors)

    def nested(lookups: tuple[Lookup, ...]) -> tuple[Lookup, ...]:
        return tuple(
            lookup._replace(strides=zeros + lookup.strides, lookups=nested(lookup.lookups)) for lookup in lookups
        )

    new_lookup = Lookup(
        index.operand, dtype, index.offset, zeros + index.strides, size, 0, outside, nested(index.lookups)
    )
    is_used = False

    def with_lookup(
        lookups: tuple[Lookup, ...], strides: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[Lookup, ...]]:
        nonlocal is_used
        inner = []
        for lookup in lookups:
            own_strides, own_lookups = with_lookup(lookup.lookups, lookup.strides)
            inner.append(lookup._replace(strides=own_strides, lookups=own_lookups))
        if replaced is not None and strides[replaced]:
            is_used = True
            inner.append(new_lookup._replace(stride=strides[replaced]))
        return (*(strides[k] for k in kept_factors), *(0,) * count), tuple(inner)

    strides, lookups = with_lookup(piece.source.lookups, piece.source.strides)
    if not is_used and outside != "clamp":
        # The index does not change the address, but may be out of range.
        lookups = (*lookups, new_lookup)
    return Access(piece.source.operand, piece.source.offset, strides, lookups)
