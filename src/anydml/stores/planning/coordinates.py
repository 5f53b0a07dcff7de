"""Far strides, by which an address determines its coordinates, and lookups as pieces of such addresses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.errors import BindingError
from anydml.moves import Access, Lookup
from anydml.moves.compose import CONSTANT
from anydml.moves.pieces import Piece, tidy
from anydml.moves.program import Operand, Program
from anydml.stores.planning.indices import wrapped

SPACE = 1 << 70
"""More than any coordinate, or any sum of steps, along an axis."""


def far_strides(rank: int) -> tuple[int, ...]:
    """Strides whose addresses `coordinates` can invert."""
    return tuple(SPACE ** (rank - 1 - axis) for axis in range(rank))


def coordinates(address: int, rank: int) -> tuple[int, ...]:
    """The coordinates, or steps along each axis, of an address with far strides."""
    found = []
    for _ in range(rank):
        digit = (address + SPACE // 2) % SPACE - SPACE // 2
        found.append(digit)
        address = (address - digit) // SPACE
    return tuple(reversed(found))


MOST_RUNS = 1 << 16
"""Most runs that a value may pick by indices."""

Indices = Callable[[int], "np.ndarray[Any, Any]"]
"""Returns the packed elements of an operand that holds indices."""

Ranks = Callable[[int], int]
"""Returns the number of axes of an operand."""


def runs_of(name: str, piece: Piece, source: Access, rank_of: Ranks, indices: Indices) -> list[Piece]:
    """A piece with lookups as pieces without: one per evenly spaced run of indices."""
    piece = tidy(piece)
    if not isinstance(piece.source, Access):
        raise AssertionError("a piece with lookups reads something")
    source, rank = piece.source, rank_of(source.operand)
    by = sorted({k for x in source.lookups for k, stride in enumerate(x.strides) if stride})
    others = [k for k in range(len(piece.factors)) if k not in by]
    sizes = tuple(piece.factors[k].size for k in by)
    first = coordinates(source.offset, rank)
    where = np.broadcast_to(np.array(first, np.int64), (*sizes, rank)).copy()
    kept = np.ones(sizes, bool)
    for place, k in enumerate(by):
        along = np.arange(sizes[place]).reshape([-1 if n == place else 1 for n in range(len(by))])
        where += along[..., None] * np.array(coordinates(source.strides[k], rank), np.int64)
    for lookup in source.lookups:
        index, inside = _indices(name, lookup, by, sizes, rank_of, indices)
        kept &= inside | (lookup.outside != "skip")
        where += np.clip(index, 0, lookup.size - 1)[..., None] * np.array(coordinates(lookup.stride, rank), np.int64)
    if not kept.all():
        raise BindingError(f"{name}: what is picked by indices outside is left out, which no plan does")
    last = sizes[-1] if by else 1
    rows = where.reshape(-1, last, rank)
    heads = np.stack(np.unravel_index(np.arange(len(rows)), sizes[:-1] or (1,)), 1)
    strides, found = far_strides(rank), []
    for head, row in zip(heads, rows, strict=True):
        start = [*piece.start]
        for digit, k in zip(head, by[:-1], strict=False):
            start[piece.factors[k].axis] += int(digit) * piece.factors[k].step
        for begin, count, step in _even(row):
            own = [*start]
            factors, steps = [piece.factors[k] for k in others], [source.strides[k] for k in others]
            if by:
                factor = piece.factors[by[-1]]
                own[factor.axis] += begin * factor.step
                if count > 1:
                    factors.append(factor._replace(size=count))
                    steps.append(sum(int(n) * s for n, s in zip(step, strides, strict=True)))
            offset = sum(int(n) * s for n, s in zip(row[begin], strides, strict=True))
            found.append(Piece(tuple(own), tuple(factors), Access(source.operand, offset, tuple(steps))))
            if len(found) > MOST_RUNS:
                raise BindingError(f"{name}: it picks more than {MOST_RUNS} runs, which a plan cannot hold")
    return found


def _indices(
    name: str, lookup: Lookup, by: list[int], sizes: tuple[int, ...], rank_of: Ranks, indices: Indices
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The indices at each coordinate of some factors, and which of them lie inside; as `wrapped`."""
    if lookup.lookups:
        raise BindingError(f"{name}: indices of indices cannot be planned over files")
    flat = indices(lookup.operand)
    if lookup.operand < CONSTANT:
        rank = rank_of(lookup.operand)
        shape = flat.shape
        packed = [math.prod(shape[axis + 1 :]) for axis in range(rank)]
        flat = flat.reshape(-1)

        def near(address: int) -> int:
            return sum(n * s for n, s in zip(coordinates(address, rank), packed, strict=True))
    else:
        flat = flat.view(lookup.dtype)
        size = flat.itemsize

        def near(address: int) -> int:
            return address // size

    place = np.full(sizes, near(lookup.offset), np.int64)
    for number, k in enumerate(by):
        along = np.arange(sizes[number]).reshape([-1 if n == number else 1 for n in range(len(by))])
        place += along * near(lookup.strides[k])
    raw = flat[place]
    return wrapped(Program(name, (Operand("input", "indices"),), ()), lookup._replace(operand=0), raw)


def _even(row: np.ndarray[Any, Any]) -> list[tuple[int, int, Any]]:
    """Runs of a row of coordinates that are evenly spaced along one axis: first, length and step of each."""
    steps, found, at = np.diff(row, axis=0), [], 0
    same = (steps[1:] == steps[:-1]).all(1) if len(steps) > 1 else np.zeros(0, bool)
    straight = (steps != 0).sum(1) == 1 if len(steps) else np.zeros(0, bool)
    breaks = np.flatnonzero(~same) + 1
    while at < len(row):
        if at + 1 == len(row) or not straight[at] or steps[at].min() < 0:
            found.append((at, 1, None))
            at += 1
            continue
        later = breaks[np.searchsorted(breaks, at + 1) :]
        end = int(later[0]) + 1 if later.size else len(row)
        found.append((at, end - at, steps[at]))
        at = end
    return found
