"""Moves by NumPy: for work so small that choosing a kernel would cost more than doing it, and where no kernel fits.

Views are made at bind; what is left for dispatch is one assignment or one `take` a move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.backends.base import Array
from anydml.backends.memory import element_dtype, window
from anydml.moves import Access, Move, extent, resolve

CHUNK = 1 << 16
CHUNK_BYTES = 512 << 10
"""Elements that a lookup resolves at a time at most, and their bytes, so that its buffers stay small."""

PIECE = 64 << 10
"""Longest element, in bytes, that is looked up as a whole; NumPy's own elements end at 2 GiB."""

_TAKE_MODES = {
    dtype: "raise" if dtype.kind == "i" else "clip"
    for dtype in map(np.dtype, ("int32", "int64", "uint32"))
    if np.can_cast(dtype, np.intp)
}
"""Indices that `take` reads as they are, and how: it wraps a negative one once, as we do, unless it may clip it."""

_ALL = slice(None)


def bind_small(moves: Sequence[Move], operands: Sequence[Array]) -> Callable[[], object]:
    """One callable that does all moves, in order."""
    steps = [_bind(move, operands) for move in moves]
    if len(steps) == 1 and not moves[0].has_lookups:
        return steps[0]
    # What a lookup returns is nobody's business.
    return partial(_run, steps)


def _run(steps: Sequence[Callable[[], object]]) -> None:
    for step in steps:
        step()


def _bind(move: Move, operands: Sequence[Array]) -> Callable[[], object]:
    if move.destination.lookups:
        raise AssertionError("no operator scatters yet")
    if move.source.lookups:
        return _bind_take(move, operands) or partial(_gather, list(_pieces(move)), operands)
    destination, source = (_view(move, access, operands) for access in (move.destination, move.source))
    if not move.sizes:
        return partial(_bytes(destination).__setitem__, _ALL, _bytes(source))
    return partial(destination.__setitem__, ..., source)


def _bytes(array: Array) -> memoryview:
    return array.data.cast("B")


def _view(move: Move, access: Access, operands: Sequence[Array]) -> Array:
    """The elements of one end of a move: words of up to 8 bytes, in the widest that divides the element."""
    word = math.gcd(move.element_size, 8)
    sizes, strides = move.sizes, access.strides
    if word != move.element_size or not sizes:
        sizes, strides = (*sizes, move.element_size // word), (*strides, word)
    return window(operands[access.operand], access.offset, sizes, strides, element_dtype(word))


def _bind_take(move: Move, operands: Sequence[Array]) -> Callable[[], object] | None:
    """`take` of whole rows by a flat list of indices, if the move is no more than that."""
    source, destination, size = move.source, move.destination, move.element_size
    if len(source.lookups) != 1 or len(move.sizes) > 1 or any(source.strides):
        return None
    (lookup,) = source.lookups
    sizes = move.sizes or (1,)
    if lookup.stride != size or destination.strides not in ((), (size,)) or sizes[0] > CHUNK or size > PIECE:
        return None
    dtype = element_dtype(size)
    table = window(operands[source.operand], source.offset, (lookup.size,), (size,), dtype)
    rows = window(operands[destination.operand], destination.offset, sizes, (size,), dtype)
    indices = window(operands[lookup.operand], lookup.offset, sizes, lookup.strides or (0,), np.dtype(lookup.dtype))
    if not (table.flags.aligned and rows.flags.aligned and indices.flags.aligned):
        return None
    mode = _TAKE_MODES.get(indices.dtype)
    if mode == "clip":
        return partial(table.take, indices, None, rows, mode)
    return partial(_take_whole if mode and rows.nbytes <= CHUNK_BYTES else _take_resolved, table, indices, rows)


def take(x: Any, indices: Array, axis: int) -> Array:
    """NumPy's `take`, by indices that stand for coordinates as `resolve` says.

    Args:
        x: array that is contiguous, or small: of others, NumPy makes a copy.
        indices: INT32, INT64, UINT32 or UINT64, in native byte order.
        axis: has elements, if there are indices.
    """
    mode = _TAKE_MODES.get(indices.dtype)
    if mode is None:
        indices, mode = resolve(indices, x.shape[axis]), "clip"
    try:
        taken: Array = x.take(indices, axis, None, mode)
    except IndexError:
        # One is outside.
        taken = x.take(resolve(indices, x.shape[axis]), axis, None, "clip")
    return taken


def _take_whole(table: Array, indices: Array, rows: Array) -> None:
    # Not into the rows at once: where `take` may raise, they are read-only to other threads until it is done.
    rows[...] = take(table, indices, 0)


def _take_resolved(table: Array, indices: Array, rows: Array) -> None:
    table.take(resolve(indices, len(table)), None, rows, "clip")


def _pieces(move: Move) -> Iterator[Move]:
    """Moves of elements of at most PIECE bytes, which together do this one."""
    if move.element_size <= PIECE:
        yield move
        return
    sizes, to, source, size = move
    count, rest = divmod(size, PIECE)
    yield Move((*sizes, count), _cut(to), _cut(source), PIECE)
    if rest:
        end = count * PIECE
        yield Move(sizes, to._replace(offset=to.offset + end), source._replace(offset=source.offset + end), rest)


def _cut(access: Access) -> Access:
    """An access with one more dimension, of pieces; lookups stand still in it."""
    lookups = tuple(lookup._replace(strides=(*lookup.strides, 0)) for lookup in access.lookups)
    return access._replace(strides=(*access.strides, PIECE), lookups=lookups)


def _gather(moves: Sequence[Move], operands: Sequence[Array]) -> None:
    for move in moves:
        _gather_elements(move, operands)


def _gather_elements(move: Move, operands: Sequence[Array]) -> None:
    """Any lookups at all: byte offsets of a chunk of elements at a time, then one indexing call."""
    source, size = move.source, move.element_size
    first, end = extent(source, move.sizes, size)
    dtype = np.dtype((np.void, size))
    every_byte = window(operands[source.operand], first, (end - first - size + 1,), (1,), dtype)
    destination = window(operands[move.destination.operand], move.destination.offset, move.sizes,
                         move.destination.strides, dtype)  # fmt: skip
    for box in _chunks(move.sizes, min(CHUNK, max(1, CHUNK_BYTES // size))):
        offsets = _offsets(source, box, operands)
        offsets -= first
        destination[box] = every_byte[offsets]


def _chunks(sizes: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most `most` elements that cover `sizes`."""
    if not sizes:
        yield ()
        return
    size, *inner = sizes
    step = max(1, most // math.prod(inner))
    for i in range(0, size, step):
        for box in _chunks(tuple(inner), most):
            yield (slice(i, min(i + step, size)), *box)


def _offsets(access: Access, box: tuple[slice, ...], operands: Sequence[Array]) -> np.ndarray[Any, np.dtype[np.int64]]:
    sizes = tuple(part.stop - part.start for part in box)
    offsets = np.full(sizes, access.offset, np.int64)
    for d, (part, stride) in enumerate(zip(box, access.strides, strict=True)):
        if stride:
            steps = np.arange(part.start, part.stop, dtype=np.int64) * stride
            offsets += steps.reshape(-1, *[1] * (len(box) - d - 1))
    for lookup in access.lookups:
        start = lookup.offset + sum(part.start * stride for part, stride in zip(box, lookup.strides, strict=True))
        sizes_read = tuple(n if stride else 1 for n, stride in zip(sizes, lookup.strides, strict=True))
        indices = window(operands[lookup.operand], start, sizes_read, lookup.strides, np.dtype(lookup.dtype))
        offsets += resolve(indices, lookup.size) * lookup.stride
    return offsets
