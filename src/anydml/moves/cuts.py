"""Cropping, striding, flipping and splitting the axes of a piece.

Every function returns pieces that cover exactly the requested elements, or raises `NotComposableError`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from anydml.moves.open_numbers import are_open, are_same, is_one, is_zero, larger, smaller
from anydml.moves.pieces import Factor, NotComposableError, Piece, on_strides

MAX_CUT_PIECES = 64
"""Maximum number of pieces that a factor is divided into, one per coordinate, if a step does not fit its step."""


def _restrict_factor(piece: Piece, k: int, first: int, size: int, every: int = 1) -> Piece:
    """Restrict factor k of a piece to its coordinates ``first + every·j``, 0 ≤ j < `size`."""
    axis, _, step = piece.factors[k]
    start = list(piece.start)
    start[axis] += first * step
    factors = (*piece.factors[:k], Factor(axis, size, step * every), *piece.factors[k + 1 :])
    source = on_strides(
        piece.source,
        lambda strides: (first * strides[k], (*strides[:k], strides[k] * every, *strides[k + 1 :])),
    )
    return Piece(tuple(start), factors, source)


def diagonal(piece: Piece, axis: int, second_axis: int) -> Iterator[Piece]:
    """Restrict a tidy piece to elements with equal coordinates along two axes, and remove the second axis."""
    factors: list[int | None] = []
    for d in (axis, second_axis):
        long_factors = [k for k, factor in enumerate(piece.factors) if factor.axis == d and not is_one(factor.size)]
        if len(long_factors) > 1 or any(piece.factors[k].step != 1 for k in long_factors):
            raise NotComposableError(
                f"the elements that axes {axis} and {second_axis} have in common have no common stride"
            )
        factors.append(long_factors[0] if long_factors else None)
    lengths = [1 if k is None else piece.factors[k].size for k in factors]
    starts = [piece.start[axis], piece.start[second_axis]]
    low = max(starts)
    size = min(start + length for start, length in zip(starts, lengths, strict=True)) - low
    if size <= 0:
        return
    for k, start in zip(factors, starts, strict=True):
        if k is not None:
            piece = _restrict_factor(piece, k, low - start, size)
    first, second = factors
    if first is not None and second is not None:
        remaining = [k for k in range(len(piece.factors)) if k != second]

        def along_both(strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
            return 0, tuple(strides[k] + (strides[second] if k == first else 0) for k in remaining)

        piece = Piece(piece.start, tuple(piece.factors[k] for k in remaining), on_strides(piece.source, along_both))
    closed = tuple(
        factor._replace(axis=axis if factor.axis == second_axis else factor.axis - (factor.axis > second_axis))
        for factor in piece.factors
    )
    yield Piece((*piece.start[:second_axis], *piece.start[second_axis + 1 :]), closed, piece.source)


def flip(piece: Piece, axis: int, length: int) -> Piece:
    """Reverse an axis of a value; `length` is the axis' size."""
    factors_of_axis = [k for k, factor in enumerate(piece.factors) if factor.axis == axis]

    def reversed_strides(strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        shift = sum((piece.factors[k].size - 1) * strides[k] for k in factors_of_axis)
        return shift, tuple(-stride if k in factors_of_axis else stride for k, stride in enumerate(strides))

    reach = sum((piece.factors[k].size - 1) * piece.factors[k].step for k in factors_of_axis)
    start = (*piece.start[:axis], length - 1 - piece.start[axis] - reach, *piece.start[axis + 1 :])
    return Piece(start, piece.factors, on_strides(piece.source, reversed_strides))


def _count(first: int, last: int) -> Iterator[int]:
    """Like `range`, but for open sizes."""
    while first < last:
        yield first
        first += 1


def crop(piece: Piece, axis: int, low: int, high: int, length: int) -> Iterator[Piece]:
    """Restrict a piece to coordinates in [low, high) along an axis of a value, whose size is `length`."""
    long_factors = [k for k, factor in enumerate(piece.factors) if factor.axis == axis and not is_one(factor.size)]
    first = piece.start[axis]
    if len(long_factors) == 1:
        _, size, step = piece.factors[long_factors[0]]
        if is_one(step) and is_zero(first) and are_same(size, length):
            yield _restrict_factor(piece, long_factors[0], low, high - low)
            return
        if are_open(first, low, high, size, step) and not is_one(high - low):
            begin = larger(0, (low - first + step - 1) // step)
            end = smaller((high - 1 - first) // step + 1, size)
            yield _restrict_factor(piece, long_factors[0], begin, larger(0, end - begin))
            return
    if any(piece.factors[k].size == 0 for k in long_factors):
        return
    reach = sum((piece.factors[k].size - 1) * piece.factors[k].step for k in long_factors)
    if first >= low and first + reach < high:
        yield piece
    elif first < high and first + reach >= low:
        k = max(long_factors, key=lambda k: piece.factors[k].step)
        _, size, step = piece.factors[k]
        inner_reach = reach - (size - 1) * step
        # First the coordinates of factor k at which all elements of smaller factors lie inside, then the others.
        begin = min(max(0, -((first - low) // step)), size)
        end = min(max(begin, (high - 1 - inner_reach - first) // step + 1), size)
        if end > begin:
            yield _restrict_factor(piece, k, begin, end - begin)
        if inner_reach:
            # Only coordinates at the borders, because an axis may have billions of coordinates outside.
            lowest, highest = max(0, -((first + inner_reach - low) // step)), min(size, -((first - high) // step))
            for coordinate in (*_count(lowest, min(begin, highest)), *_count(max(end, lowest), highest)):
                yield from crop(_restrict_factor(piece, k, coordinate, 1), axis, low, high, length)


def take_every(piece: Piece, axis: int, origin: int, every: int) -> Iterator[Piece]:
    """Restrict a piece to coordinates ``origin + every·k`` along an axis, and number these from 0."""
    if is_one(every):
        yield piece._replace(start=(*piece.start[:axis], piece.start[axis] - origin, *piece.start[axis + 1 :]))
        return
    unaligned_factors = [
        k
        for k, factor in enumerate(piece.factors)
        if factor.axis == axis and not is_one(factor.size) and factor.step % every
    ]
    offset = origin - piece.start[axis]
    if not unaligned_factors:
        if offset % every == 0:
            start = (*piece.start[:axis], -offset // every, *piece.start[axis + 1 :])
            factors = tuple(
                factor._replace(step=factor.step // every) if factor.axis == axis else factor
                for factor in piece.factors
            )
            yield piece._replace(start=start, factors=factors)
        return
    if len(unaligned_factors) == 1:
        (k,) = unaligned_factors
        _, size, step = piece.factors[k]
        common = math.gcd(step, every)
        if offset % common:
            return
        period = every // common
        first = offset // common * pow(step // common, -1, period) % period
        if first < size:
            yield from take_every(
                _restrict_factor(piece, k, first, -(-(size - first) // period), period), axis, origin, every
            )
        return
    k = min(unaligned_factors, key=lambda k: piece.factors[k].size)
    if piece.factors[k].size > MAX_CUT_PIECES:
        raise NotComposableError(
            f"a step of {every} along axis {axis} does not align with the axes that were merged into it"
        )
    for coordinate in range(piece.factors[k].size):
        yield from take_every(_restrict_factor(piece, k, coordinate, 1), axis, origin, every)


def split_axis(piece: Piece, axis: int, inner: int) -> Iterator[Piece]:
    """Split an axis in two, the second of size `inner`."""
    first = piece.start[axis]
    low = first % inner
    steps = sorted(
        (factor.step, k) for k, factor in enumerate(piece.factors) if factor.axis == axis and not is_one(factor.size)
    )
    reach = low
    for step, k in steps:
        size = piece.factors[k].size
        if step % inner == 0:
            if reach >= inner:
                break
            continue
        if reach + (size - 1) * step >= inner:
            yield from _cut_at_blocks(piece, axis, inner, k, reach - low)
            return
        reach += (size - 1) * step
    factors = []
    for own_axis, size, step in piece.factors:
        if own_axis != axis:
            factors.append(Factor(own_axis + (own_axis > axis), size, step))
        elif step % inner == 0 and not is_one(size):
            factors.append(Factor(axis, size, step // inner))
        else:
            factors.append(Factor(axis + 1, size, step))
    start = (*piece.start[:axis], first // inner, low, *piece.start[axis + 1 :])
    yield Piece(start, tuple(factors), piece.source)


def _cut_at_blocks(piece: Piece, axis: int, inner: int, k: int, below: int) -> Iterator[Piece]:
    """Divide a factor where it crosses from one block of `inner` elements into the next, and split the axis."""
    _, size, step = piece.factors[k]
    low = piece.start[axis] % inner
    if inner % step or low % step + below >= step:
        raise NotComposableError(f"axis {axis} is split where the axes that it was made of are not")
    block = inner // step
    head = min(size, (block - low // step) % block)
    block_count = (size - head) // block
    if head:
        yield from split_axis(_restrict_factor(piece, k, 0, head), axis, inner)
    if block_count:
        body = _restrict_factor(piece, k, head, block_count * block)
        factors = (*body.factors, Factor(axis, block, step))
        outer = Factor(axis, block_count, step * block)
        source = on_strides(
            body.source,
            lambda strides: (0, (*strides[:k], strides[k] * block, *strides[k + 1 :], strides[k])),
        )
        yield from split_axis(Piece(body.start, (*factors[:k], outer, *factors[k + 1 :]), source), axis, inner)
    if tail := size - head - block_count * block:
        yield from split_axis(_restrict_factor(piece, k, size - tail, tail), axis, inner)
