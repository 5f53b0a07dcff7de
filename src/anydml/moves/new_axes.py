"""Axes that a value gets: parts of an axis, and repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anydml.moves.move import Access, Fill
from anydml.moves.open_numbers import are_same, is_one, is_zero
from anydml.moves.pieces import Factor, Piece, on_strides, with_zero_strides
from anydml.moves.value import Value


def split(value: Value, axis: int, sizes: Sequence[int]) -> Value:
    """Split one axis into several, in row-major order; the product of their sizes is its size.

    Raises:
        NotComposableError: the new axes cut a factor at unequal places.
    """
    shape = (*value.sizes[:axis], *sizes, *value.sizes[axis + 1 :])
    if not all(_is_whole(piece, axis, value.sizes[axis]) for piece in value.pieces):
        return value.reshape(shape)
    # Nothing is compared that later calls would have to share.
    return Value(shape, value.element_size, tuple([_split(piece, axis, sizes) for piece in value.pieces]))


def _is_whole(piece: Piece, axis: int, size: int) -> bool:
    """Whether an axis of this size is known to be one factor of a piece."""
    factors = [factor for factor in piece.factors if factor.axis == axis]
    return (
        len(factors) == 1 and is_one(factors[0].step) and is_zero(piece.start[axis]) and are_same(factors[0].size, size)
    )


def _split(piece: Piece, axis: int, sizes: Sequence[int]) -> Piece:
    k = next(k for k, factor in enumerate(piece.factors) if factor.axis == axis)
    factors = [factor._replace(axis=factor.axis + (len(sizes) - 1) * (factor.axis > axis)) for factor in piece.factors]
    steps = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]

    def apart(strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        return 0, (*strides[:k], *[strides[k] * step for step in steps], *strides[k + 1 :])

    digits = [Factor(axis + d, size, 1) for d, size in enumerate(sizes)]
    start = (*piece.start[:axis], *(0,) * len(sizes), *piece.start[axis + 1 :])
    return Piece(start, (*factors[:k], *digits, *factors[k + 1 :]), on_strides(piece.source, apart))


def expand(value: Value, axis: int, size: int) -> Value:
    """Insert an axis before `axis`, along which all elements are equal."""
    pieces = [
        Piece(
            (*start[:axis], 0, *start[axis:]),
            (*[factor._replace(axis=factor.axis + (factor.axis >= axis)) for factor in factors], Factor(axis, size, 1)),
            with_zero_strides(source, 1),
        )
        for start, factors, source in value.pieces
    ]
    sizes = (*value.sizes[:axis], size, *value.sizes[axis:])
    return Value(sizes, value.element_size, () if is_zero(size) else tuple(pieces))


def split_elements(value: Value, size: int) -> Value:
    """Divide elements into parts of `size` bytes, which must divide the present size; along a new last axis."""
    pieces = [part for piece in value.pieces for part in _split_elements(piece, value.element_size, size)]
    return Value((*value.sizes, value.element_size // size), size, tuple(pieces))


def _split_elements(piece: Piece, total: int, size: int) -> list[Piece]:
    start, factors, source = piece
    axis, count = len(start), total // size
    if isinstance(source, Access):
        moved = with_zero_strides(source, 1)._replace(strides=(*source.strides, size))
        return [Piece((*start, 0), (*factors, Factor(axis, count, 1)), moved)]
    pattern = source.pattern * (total // len(source.pattern))
    parts = [pattern[k * size : (k + 1) * size] for k in range(count)]
    if len({*parts}) == 1:
        return [Piece((*start, 0), (*factors, Factor(axis, count, 1)), Fill(parts[0]))]
    return [Piece((*start, k), factors, Fill(part)) for k, part in enumerate(parts)]
