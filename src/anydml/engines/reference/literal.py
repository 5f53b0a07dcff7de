"""Moves by definition, one coordinate after the other, in plain Python. Slow, and easy to verify."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence

import numpy as np

from anydml.engines.common import index_error
from anydml.engines.protocol import Array
from anydml.memory.host import window
from anydml.moves.move import Access, Lookup, Move, byte_range
from anydml.moves.program import Program

Read = Callable[[int, int, int], bytes]
"""Returns bytes, given operand, offset in bytes, and length."""

SKIPPED = -(1 << 62)
"""The address of an element that is skipped."""


def bind_literally(program: Program, operands: Sequence[Array]) -> Callable[[], None]:
    """Return a function that runs a program's moves.

    Args:
        program: any program.
        operands: arrays for all operands, scratch included.
    """
    spans = _spans(program.moves)
    memory = {
        number: window(operands[number], first, (end - first,), (1,), np.dtype(np.uint8))
        for number, (first, end) in spans.items()
    }

    def read(operand: int, offset: int, size: int) -> bytes:
        start = offset - spans[operand][0]
        return memory[operand][start : start + size].tobytes()

    def run() -> None:
        for move in program.moves:
            for lookup in move.all_lookups():
                if lookup.outside == "error":
                    _refuse(program, move, read)
                    break
        for move in program.moves:
            first = spans[move.destination.operand][0] if 0 not in move.sizes else 0
            target = memory.get(move.destination.operand)
            for at in itertools.product(*map(range, move.sizes)):
                to = address(move.destination, at, read)
                if isinstance(move.source, Access):
                    source = address(move.source, at, read)
                    if SKIPPED in (to, source):
                        continue
                    element = read(move.source.operand, source, move.element_size)
                else:
                    element = move.source.pattern * (move.element_size // len(move.source.pattern))
                if to != SKIPPED and target is not None:
                    target[to - first : to - first + move.element_size] = np.frombuffer(element, np.uint8)

    return run


def _spans(moves: Sequence[Move]) -> dict[int, tuple[int, int]]:
    """Return the first byte, and the byte after the last, that moves access in each operand."""
    spans: dict[int, tuple[int, int]] = {}
    for move in moves:
        if 0 in move.sizes:
            continue
        ends = [(move.destination, move.element_size)]
        if isinstance(move.source, Access):
            ends.append((move.source, move.element_size))
        ends += [(_as_access(lookup), np.dtype(lookup.dtype).itemsize) for lookup in move.all_lookups()]
        for access, size in ends:
            first, end = byte_range(access, move.sizes, size)
            span = spans.get(access.operand, (first, end))
            spans[access.operand] = min(first, span[0]), max(end, span[1])
    return spans


def _as_access(lookup: Lookup) -> Access:
    return Access(lookup.operand, lookup.offset, lookup.strides, lookup.lookups)


def address(access: Access | Lookup, at: tuple[int, ...], read: Read) -> int:
    """Return the address of an element in its operand, or `SKIPPED`.

    Args:
        access: the access.
        at: the coordinate.
        read: reads indices.
    """
    total = access.offset + sum(map(int.__mul__, at, access.strides))
    for lookup in access.lookups:
        spot = address(lookup, at, read)
        if spot == SKIPPED:
            return SKIPPED
        index = _index(lookup, spot, read)
        if not 0 <= index < lookup.size:
            if lookup.outside == "skip":
                return SKIPPED
            index = min(max(index, 0), lookup.size - 1)
        total += index * lookup.stride
    return total


def _index(lookup: Lookup, spot: int, read: Read) -> int:
    dtype = np.dtype(lookup.dtype)
    index = int.from_bytes(read(lookup.operand, spot, dtype.itemsize), sys.byteorder, signed=dtype.kind == "i")
    return index + lookup.size if index < 0 else index


def _refuse(program: Program, move: Move, read: Read) -> None:
    """Raise IndexError for the first index of a move that is refused."""
    for at in itertools.product(*map(range, move.sizes)):
        for lookup in move.all_lookups():
            spot = address(lookup, at, read)
            if lookup.outside == "error" and spot != SKIPPED:
                index = _index(lookup, spot, read)
                if not 0 <= index < lookup.size:
                    # Undo the wrapping, so that the error shows the index in the operand.
                    raise index_error(program, lookup, index - lookup.size if index < 0 else index)
