"""Moves: the one idea that every operator is lowered to.

    for every coordinate c of a box `sizes`:   destination[a(c)] = source[b(c)]

`a` and `b` are `Access`es: a byte offset into an operand, one signed byte stride a dimension, and zero or more
`Lookup`s. A lookup reads one integer from an index operand (at its own offset and strides), wraps it if negative,
clamps it into the axis, and adds it times a stride.

    SPLIT    one move a part: same source, shifted offset
    JOIN     one move a part: same destination, shifted offset
    SLICE    one move; the source strides carry the steps, negative ones walk backwards
    GATHER   one move; one lookup in the source

Everything is counted in bytes, so that nothing downstream knows a data type. `simplify` brings a move to the one
shape that kernels are written for: the fewest dimensions, sorted, and the longest contiguous run as its element.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Lookup:
    """One index read per coordinate: ``stride · clamp(wrap(indices[offset + Σ c·strides]), 0, size−1)``.

    Attributes:
        operand: number of the operand that holds the indices.
        dtype: NumPy's name of an index: ``"int32"``, ``"int64"``, ``"uint32"`` or ``"uint64"``; signed ones wrap.
        offset: bytes from the operand's first element.
        strides: one byte stride a dimension of the move.
        size: length of the axis that is looked up, at least 1.
        stride: bytes that one step along that axis is worth.
    """

    operand: int
    dtype: str
    offset: int
    strides: tuple[int, ...]
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class Access:
    """An address for every coordinate: ``offset + Σ c·strides + Σ lookups``, in bytes from an operand's start."""

    operand: int
    offset: int
    strides: tuple[int, ...]
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """``destination[a(c)] = source[b(c)]``, `element_size` bytes each, for every coordinate c of the box `sizes`."""

    sizes: tuple[int, ...]
    destination: Access
    source: Access
    element_size: int

    @property
    def bytes_written(self) -> int:
        """Bytes that this move writes."""
        return math.prod(self.sizes) * self.element_size

    @property
    def has_lookups(self) -> bool:
        """Whether an address depends on an index tensor."""
        return bool(self.source.lookups or self.destination.lookups)

    def __str__(self) -> str:
        box = "×".join(map(str, self.sizes)) or "1"
        return f"{box} of {self.element_size} B: {_describe(self.destination)} = {_describe(self.source)}"


def _describe(access: Access) -> str:
    terms = [str(access.offset)] if access.offset or not (access.strides or access.lookups) else []
    terms += [f"{stride}·c{i}" for i, stride in enumerate(access.strides) if stride]
    for lookup in access.lookups:
        at = [str(lookup.offset)] if lookup.offset else []
        at += [f"{stride}·c{i}" for i, stride in enumerate(lookup.strides) if stride]
        terms.append(f"{lookup.stride}·index{lookup.operand}[{' + '.join(at) or '0'}]")
    return f"#{access.operand}[{' + '.join(terms) or '0'}]"


def simplify(moves: Iterable[Move]) -> tuple[Move, ...]:
    """Bring every move to its simplest form; moves of nothing are dropped.

    Dimensions of size 1 go; destination strides become positive and sorted, largest first; neighbours that every
    access lets merge are merged; the innermost dimension becomes part of the element where it is contiguous.
    """
    return tuple(_simplify(move) for move in moves if 0 not in move.sizes and move.element_size)


def _simplify(move: Move) -> Move:
    columns = _columns(move)
    sizes = list(move.sizes)
    # A destination that walks backwards is the same move seen from its other end.
    shift = [0] * len(columns)
    for d, size in enumerate(sizes):
        if columns[0][d] < 0:
            for k, column in enumerate(columns):
                shift[k] += (size - 1) * column[d]
                column[d] = -column[d]
    order = [d for d in range(len(sizes)) if sizes[d] != 1]
    order.sort(key=lambda d: (columns[0][d], abs(columns[1][d])), reverse=True)
    sizes = [sizes[d] for d in order]
    columns = [[column[d] for d in order] for column in columns]
    d = len(sizes) - 2
    while d >= 0:
        if all(column[d] == column[d + 1] * sizes[d + 1] for column in columns):
            sizes[d : d + 2] = [sizes[d] * sizes[d + 1]]
            for column in columns:
                del column[d]
        d -= 1
    element_size = move.element_size
    if sizes and all(c[-1] == element_size for c in columns[:2]) and all(c[-1] == 0 for c in columns[2:]):
        element_size *= sizes.pop()
        for column in columns:
            column.pop()
    return _rebuilt(move, sizes, columns, shift, element_size)


def _columns(move: Move) -> list[list[int]]:
    """The strides of every address in a move: destination, source, then each lookup's own."""
    ends = (move.destination, move.source)
    return [list(a.strides) for a in ends] + [list(lookup.strides) for a in ends for lookup in a.lookups]


def _rebuilt(move: Move, sizes: list[int], columns: list[list[int]], shift: list[int], element_size: int) -> Move:
    strides, offsets = iter(columns[2:]), iter(shift[2:])
    ends = []
    for access, column, offset in zip((move.destination, move.source), columns, shift, strict=False):
        lookups = tuple(
            replace(lookup, offset=lookup.offset + next(offsets), strides=tuple(next(strides)))
            for lookup in access.lookups
        )
        ends.append(Access(access.operand, access.offset + offset, tuple(column), lookups))
    return Move(tuple(sizes), ends[0], ends[1], element_size)


def extent(access: Access, sizes: tuple[int, ...], element_size: int) -> tuple[int, int]:
    """The first byte and the byte after the last that an access can touch; lookups count with their whole axis."""
    first = last = access.offset
    for size, stride in zip(sizes, access.strides, strict=True):
        first += min(0, (size - 1) * stride)
        last += max(0, (size - 1) * stride)
    for lookup in access.lookups:
        first += min(0, (lookup.size - 1) * lookup.stride)
        last += max(0, (lookup.size - 1) * lookup.stride)
    return first, last + element_size


def resolve(indices: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The coordinates that indices stand for: negative ones of a signed type wrap once, then all are clamped.

    Args:
        indices: integers of any type and shape.
        size: length of the axis, at least 1.

    Returns:
        An INT64 array of the same shape with values in [0, size−1]. INT64_MIN gives 0, UINT64_MAX gives size−1.
    """
    if indices.dtype == np.uint64:
        clamped: np.ndarray[Any, np.dtype[np.int64]] = np.minimum(indices, np.uint64(size - 1)).astype(np.int64)
        return clamped
    wide = indices.astype(np.int64)
    np.add(wide, size, out=wide, where=wide < 0)
    np.clip(wide, 0, size - 1, out=wide)
    return wide
