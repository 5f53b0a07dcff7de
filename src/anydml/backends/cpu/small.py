"""Moves by NumPy: for work so small that choosing a kernel would cost more than doing it, and where no kernel fits.

Views are made at bind; what is left for dispatch is one assignment or one `take` a move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.backends.base import Array
from anydml.backends.memory import element_dtype, window
from anydml.moves import Access, Move, extent, resolve

CHUNK = 1 << 16
"""Elements that a lookup resolves at a time, so that its index buffers stay small."""

_ALL = slice(None)


def bind_small(moves: Sequence[Move], operands: Sequence[Array]) -> Callable[[], object]:
    """One callable that does all moves, in order."""
    steps = [_bind(move, operands) for move in moves]
    if len(steps) == 1:
        return steps[0]
    return partial(_run, steps)


def _run(steps: Sequence[Callable[[], object]]) -> None:
    for step in steps:
        step()


def _bind(move: Move, operands: Sequence[Array]) -> Callable[[], object]:
    if move.destination.lookups:
        raise AssertionError("no operator scatters yet")
    if move.source.lookups:
        return _bind_take(move, operands) or partial(_gather, move, operands)
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
    if (
        lookup.stride != size
        or lookup.dtype not in ("uint32", "int64", "int32")
        or destination.strides not in ((), (size,))
    ):
        return None
    dtype = element_dtype(size)
    sizes = move.sizes or (1,)
    table = window(operands[source.operand], source.offset, (lookup.size,), (size,), dtype)
    rows = window(operands[destination.operand], destination.offset, sizes, (size,), dtype)
    indices = window(operands[lookup.operand], lookup.offset, sizes, lookup.strides or (0,), np.dtype(lookup.dtype))
    if sizes[0] > CHUNK or not (table.flags.aligned and rows.flags.aligned and indices.flags.aligned):
        return None
    return partial(_take, table, indices, rows, lookup.dtype[0] == "i")


def _take(table: Array, indices: Array, rows: Array, signed: bool) -> None:
    # Made anew for each dispatch: several threads may dispatch at once.
    coordinates = indices.astype(np.int64)
    if signed:
        np.add(coordinates, len(table), out=coordinates, where=coordinates < 0)
    table.take(coordinates, None, rows, "clip")


def _gather(move: Move, operands: Sequence[Array]) -> None:
    """Any lookups at all: byte offsets of a chunk of elements at a time, then one indexing call."""
    source, size = move.source, move.element_size
    first, end = extent(source, move.sizes, size)
    dtype = np.dtype((np.void, size))
    every_byte = window(operands[source.operand], first, (end - first - size + 1,), (1,), dtype)
    destination = window(operands[move.destination.operand], move.destination.offset, move.sizes,
                         move.destination.strides, dtype)  # fmt: skip
    for box in _chunks(move.sizes):
        offsets = _offsets(source, box, operands)
        offsets -= first
        destination[box] = every_byte[offsets]


def _chunks(sizes: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Boxes of at most about CHUNK elements that cover `sizes`."""
    boxes: list[tuple[slice, ...]] = [()]
    inner = math.prod(sizes)
    for size in sizes:
        inner //= size
        step = max(1, min(size, CHUNK // max(inner, 1)))
        boxes = [(*box, slice(i, min(i + step, size))) for box in boxes for i in range(0, size, step)]
    return boxes


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
