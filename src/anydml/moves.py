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
from typing import Any, NamedTuple

import numpy as np


class Lookup(NamedTuple):
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


class Access(NamedTuple):
    """An address for every coordinate: ``offset + Σ c·strides + Σ lookups``, in bytes from an operand's start."""

    operand: int
    offset: int
    strides: tuple[int, ...]
    lookups: tuple[Lookup, ...] = ()


class Move(NamedTuple):
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
    def bytes_read(self) -> int:
        """Bytes that this move has to read: elements and indices, once each where a dimension repeats them."""
        source = self.source
        used = [source.strides, *(lookup.strides for lookup in source.lookups)]
        elements = math.prod(n for d, n in enumerate(self.sizes) if any(strides[d] for strides in used))
        total = elements * self.element_size
        for lookup in (*source.lookups, *self.destination.lookups):
            reads = math.prod(n for n, stride in zip(self.sizes, lookup.strides, strict=True) if stride)
            total += reads * np.dtype(lookup.dtype).itemsize
        return total

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
    sizes, (to, to_offset, to_strides, to_lookups), (at, at_offset, at_strides, at_lookups), element_size = move
    lookups = to_lookups + at_lookups
    columns = [lookup.strides for lookup in lookups]
    # One tuple a dimension: the strides of destination, source and lookups, and the size.
    dimensions = sorted(zip(to_strides, at_strides, *columns, sizes, strict=True))
    if dimensions and dimensions[0][0] < 0:
        shift = [0] * (2 + len(lookups))
        dimensions = sorted(_forwards(dimension, shift) for dimension in dimensions)
        to_offset, at_offset = to_offset + shift[0], at_offset + shift[1]
        lookups = tuple(each._replace(offset=each.offset + by) for each, by in zip(lookups, shift[2:], strict=True))
    # The innermost dimension of all is that of an element's bytes; it takes in what is contiguous.
    merged: list[tuple[int, ...]] = [(1, 1, *[0] * len(lookups), element_size)]
    for dimension in dimensions:
        size = dimension[-1]
        if size == 1:
            continue
        inner = merged[-1]
        count = inner[-1]
        if (
            dimension[0] == inner[0] * count
            and dimension[1] == inner[1] * count
            and (not lookups or _continues(dimension, inner, count))
        ):
            merged[-1] = (*inner[:-1], count * size)
        else:
            merged.append(dimension)
    element_size = merged[0][-1]
    columns = [*zip(*merged[:0:-1], strict=True)] or [()] * (3 + len(lookups))
    to_strides, at_strides, *columns, sizes = columns
    if lookups:
        lookups = tuple(each._replace(strides=own) for each, own in zip(lookups, columns, strict=True))
        to_lookups, at_lookups = lookups[: len(to_lookups)], lookups[len(to_lookups) :]
    destination, source = Access(to, to_offset, to_strides, to_lookups), Access(at, at_offset, at_strides, at_lookups)
    return Move(sizes, destination, source, element_size)


def _continues(dimension: tuple[int, ...], inner: tuple[int, ...], count: int) -> bool:
    """Whether every lookup's stride goes on where an inner dimension of `count` ends."""
    return all(stride == step * count for stride, step in zip(dimension[2:-1], inner[2:-1], strict=True))


def _forwards(dimension: tuple[int, ...], shift: list[int]) -> tuple[int, ...]:
    """A dimension in which the destination walks backwards, seen from its other end; offsets go to `shift`."""
    if dimension[0] >= 0:
        return dimension
    *strides, size = dimension
    for k, stride in enumerate(strides):
        shift[k] += (size - 1) * stride
    return (*(-stride for stride in strides), size)


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
    if indices.dtype.kind == "i":
        # The sign bit, spread, is −1 or 0.
        wide += (wide >> 63) & size
        np.maximum(wide, 0, out=wide)
    np.minimum(wide, size - 1, out=wide)
    return wide
