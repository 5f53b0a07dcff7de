"""Arbitrary moves with NumPy: byte offsets of a chunk of elements, then one indexing call per chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.engines.common import index_error
from anydml.engines.protocol import Array
from anydml.memory.host import window
from anydml.moves.move import Access, Lookup, Move, all_lookups, byte_range
from anydml.moves.program import Program, may_write_twice
from anydml.moves.wrapped_indices import are_inside, is_outside, resolve

CHUNK = 1 << 16
"""Maximum number of elements per chunk, so that buffers stay small."""

CHUNK_BYTES = 512 << 10
"""Maximum number of bytes per chunk, so that buffers stay small."""

PIECE = 64 << 10
"""Largest element, in bytes, that is not divided; NumPy's own limit is 2 GiB."""

Offsets = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Box = tuple[slice, ...]


def bind_general(move: Move, operands: Sequence[Array]) -> Callable[[], None]:
    """Return a function that runs a move with any lookups at either end."""
    return partial(_move_all, list(_pieces(move)), operands)


def bind_refusals(program: Program, operands: Sequence[Array]) -> list[Callable[[], None]]:
    """Return functions that raise IndexError for indices out of range, one per lookup that refuses them."""
    return [
        partial(_refuse, program, lookup, _sizes_read(lookup, move.sizes), operands)
        for move in program.moves
        if 0 not in move.sizes
        for lookup in move.all_lookups()
        if lookup.outside == "error"
    ]


def _sizes_read(lookup: Lookup, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return a move's sizes, with 1 for dimensions that a lookup's index does not depend on."""
    reads = list(all_lookups((lookup,)))
    return tuple([size if any(read.strides[d] for read in reads) else 1 for d, size in enumerate(sizes)])


def _refuse(program: Program, lookup: Lookup, sizes: tuple[int, ...], operands: Sequence[Array]) -> None:
    for box in chunks(sizes, CHUNK):
        indices, valid = _indices(lookup, box, operands)
        if are_inside(indices, lookup.size):
            continue
        outside = is_outside(indices, lookup.size)
        if valid is not None:
            outside = outside & valid
        if outside.any():
            indices = np.broadcast_to(indices, outside.shape)
            raise index_error(program, lookup, int(indices[outside][0]))


def _pieces(move: Move) -> Iterator[Move]:
    """Divide a move into moves of elements of at most `PIECE` bytes."""
    if move.element_size <= PIECE or may_write_twice(move):
        # With lookups in the destination, elements are written in order, so none may be divided.
        yield move
        return
    sizes, to, source, size = move.sizes, move.destination, move.reads, move.element_size
    count, tail = divmod(size, PIECE)
    yield Move((*sizes, count), _cut(to), _cut(source), PIECE)
    if tail:
        end = count * PIECE
        yield Move(sizes, to._replace(offset=to.offset + end), source._replace(offset=source.offset + end), tail)


def _cut(access: Access) -> Access:
    """Append a dimension of pieces to an access; lookups have stride 0 in it."""
    return Access(access.operand, access.offset, (*access.strides, PIECE), tuple(map(_without_strides, access.lookups)))


def _without_strides(lookup: Lookup) -> Lookup:
    return lookup._replace(strides=(*lookup.strides, 0), lookups=tuple(map(_without_strides, lookup.lookups)))


def _move_all(moves: Sequence[Move], operands: Sequence[Array]) -> None:
    for move in moves:
        _move(move, operands)


def _move(move: Move, operands: Sequence[Array]) -> None:
    sizes, to, source, size = move.sizes, move.destination, move.reads, move.element_size
    dtype = np.dtype((np.void, size))
    (target, to_first), (elements, first) = (_every_byte(end, sizes, size, operands, dtype) for end in (to, source))
    plain = window(operands[to.operand], to.offset, sizes, to.strides, dtype) if not to.lookups else None
    for box in chunks(sizes, min(CHUNK, max(1, CHUNK_BYTES // size))):
        at, valid = offsets_of(source, box, operands)
        at -= first
        if plain is not None and valid is None:
            plain[box] = elements[at]
            continue
        # In row-major order, so that the last of several writes to one element wins.
        spots, read_mask = offsets_of(to, box, operands)
        spots -= to_first
        for mask in (valid, read_mask):
            if mask is not None:
                valid = mask if valid is None else valid & mask
        if valid is None:
            target[spots.ravel()] = elements[at.ravel()]
        else:
            valid = np.broadcast_to(valid, spots.shape)
            target[spots[valid]] = elements[at[valid]]


def _every_byte(
    access: Access, sizes: tuple[int, ...], size: int, operands: Sequence[Array], dtype: np.dtype[Any]
) -> tuple[Array, int]:
    """Return a view that has an element at every byte of an access's extent, and the start of the extent."""
    first, end = byte_range(access, sizes, size)
    return window(operands[access.operand], first, (end - first - size + 1,), (1,), dtype), first


def chunks(sizes: tuple[int, ...], max_elements: int) -> Iterator[Box]:
    """Yield boxes of at most `max_elements` elements that cover `sizes`, in row-major order."""
    if not sizes:
        yield ()
        return
    size, *inner = sizes
    step = max(1, max_elements // math.prod(inner))
    for i in range(0, size, step):
        for box in chunks(tuple(inner), max_elements):
            yield (slice(i, min(i + step, size)), *box)


def offsets_of(access: Access, box: Box, operands: Sequence[Array]) -> tuple[Offsets, Mask | None]:
    """Return the offsets of a box's elements, and a mask of those that are not skipped, or None if none is."""
    sizes = tuple(part.stop - part.start for part in box)
    offsets = np.full(sizes, access.offset, np.int64)
    for d, (part, stride) in enumerate(zip(box, access.strides, strict=True)):
        if stride:
            steps = np.arange(part.start, part.stop, dtype=np.int64) * stride
            offsets += steps.reshape(-1, *[1] * (len(box) - d - 1))
    valid: Mask | None = None
    for lookup in access.lookups:
        indices, inside_axis = _indices(lookup, box, operands)
        offsets += resolve(indices, lookup.size) * lookup.stride
        if lookup.outside == "skip":
            inside = ~is_outside(indices, lookup.size)
            inside_axis = inside if inside_axis is None else inside_axis & inside
        if inside_axis is not None:
            valid = inside_axis if valid is None else valid & inside_axis
    return offsets, valid


def _indices(lookup: Lookup, box: Box, operands: Sequence[Array]) -> tuple[Array, Mask | None]:
    """Return the indices of a box's elements, which broadcast to the box, and a mask of those that are not skipped."""
    sizes = tuple(part.stop - part.start for part in box)
    used = [any(inner.strides[d] for inner in all_lookups((lookup,))) for d in range(len(box))]
    narrow = tuple(part if moves else slice(part.start, part.start + 1) for part, moves in zip(box, used, strict=True))
    dtype = np.dtype(lookup.dtype)
    if not lookup.lookups:
        start = lookup.offset + sum(part.start * stride for part, stride in zip(box, lookup.strides, strict=True))
        shape = tuple(n if moves else 1 for n, moves in zip(sizes, used, strict=True))
        return window(operands[lookup.operand], start, shape, lookup.strides, dtype), None
    access = Access(lookup.operand, lookup.offset, lookup.strides, lookup.lookups)
    offsets, valid = offsets_of(access, narrow, operands)
    # The extent's upper end includes the whole axes of lookups; the actual offsets of the chunk may be lower.
    low = int(np.min(offsets))
    raw = window(
        operands[lookup.operand], low, (int(np.max(offsets)) - low + 1,), (1,), np.dtype((np.void, dtype.itemsize))
    )
    offsets -= low
    return np.asarray(raw[offsets]).view(dtype), valid
