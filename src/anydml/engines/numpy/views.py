"""Moves as assignments between NumPy views.

Binding creates the views; a dispatch is one assignment or one `take` per move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from anydml.engines.numpy import general
from anydml.engines.protocol import Array
from anydml.memory.host import element_dtype, window
from anydml.moves import Access, Move, resolve


def bind_views(moves: Sequence[Move], operands: Sequence[Array]) -> Callable[[], object]:
    """Return a function that runs all moves, in order."""
    if all(not move.sizes and not move.has_lookups for move in moves):
        return partial(_copy_bytes, tuple([_ends(move, operands) for move in moves]))
    steps = [_bind(move, operands) for move in moves]
    if len(steps) == 1 and not moves[0].has_lookups:
        return steps[0]
    # The steps' return values are ignored.
    return partial(_run, steps)


def _run(steps: Sequence[Callable[[], object]]) -> None:
    for step in steps:
        step()


def _bind(move: Move, operands: Sequence[Array]) -> Callable[[], object]:
    if move.has_lookups:
        bound = _bind_take(move, operands) or _bind_masked(move, operands)
        return bound or general.bind_general(move, operands)
    destination, source = (_view(move, access, operands) for access in (move.destination, move.reads))
    if not move.sizes:
        return partial(_copy_bytes, (_ends(move, operands),))
    return partial(destination.__setitem__, ..., source)


def _ends(move: Move, operands: Sequence[Array]) -> tuple[memoryview, memoryview]:
    """Return the bytes of the destination and of the source of a move of one element."""
    destination, source = (_view(move, access, operands).data.cast("B") for access in (move.destination, move.reads))
    return destination, source


def _copy_bytes(ends: tuple[tuple[memoryview, memoryview], ...]) -> None:
    for destination, source in ends:
        destination[:] = source


def _view(move: Move, access: Access, operands: Sequence[Array]) -> Array:
    """Return a view of one end of a move, in the widest words, up to 8 bytes, that divide the element."""
    word = math.gcd(move.element_size, 8)
    sizes, strides = move.sizes, access.strides
    if word != move.element_size or not sizes:
        sizes, strides = (*sizes, move.element_size // word), (*strides, word)
    return window(operands[access.operand], access.offset, sizes, strides, element_dtype(word))


def _bind_take(move: Move, operands: Sequence[Array]) -> Callable[[], object] | None:
    """Return a `take` of whole rows by a flat list of indices, or None if the move is more complex."""
    source, destination, size = move.reads, move.destination, move.element_size
    if len(source.lookups) != 1 or destination.lookups or len(move.sizes) > 1 or any(source.strides):
        return None
    (lookup,) = source.lookups
    if lookup.lookups or lookup.outside == "skip":
        return None
    sizes = move.sizes or (1,)
    if (
        lookup.stride != size
        or destination.strides not in ((), (size,))
        or sizes[0] > general.CHUNK
        or size > general.PIECE
    ):
        return None
    dtype = element_dtype(size)
    table = window(operands[source.operand], source.offset, (lookup.size,), (size,), dtype)
    rows = window(operands[destination.operand], destination.offset, sizes, (size,), dtype)
    indices = window(operands[lookup.operand], lookup.offset, sizes, lookup.strides or (0,), np.dtype(lookup.dtype))
    if not (table.flags.aligned and rows.flags.aligned and indices.flags.aligned):
        return None
    return partial(_take, table, indices, rows)


def _bind_masked(move: Move, operands: Sequence[Array]) -> Callable[[], object] | None:
    """Return a function that copies under a mask; None if the move has other lookups than one mask."""
    source = move.reads
    if move.destination.lookups or len(source.lookups) != 1 or not source.lookups[0].is_mask:
        return None
    (lookup,) = source.lookups
    mask = window(operands[lookup.operand], lookup.offset, move.sizes, lookup.strides, np.dtype(np.uint8))
    destination, elements = (_view(move, access, operands) for access in (move.destination, source))
    if destination.ndim > mask.ndim:
        # An element of several words has one mask.
        mask = mask[..., np.newaxis]
    return partial(_copy_masked, destination, elements, mask)


def _copy_masked(destination: Array, source: Array, mask: Array) -> None:
    np.copyto(destination, source, where=mask == 0)


def _take(table: Array, indices: Array, rows: Array) -> None:
    table.take(resolve(indices, len(table)), None, rows, "clip")
