"""Fills as copies: a pattern becomes a constant that is read over and over, the only kind of source engines know."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from anydml.moves.move import Access, Fill, Lookup, Move
from anydml.moves.program import Operand, Program, may_write_twice, renumbered

FILL_BLOCK = 4096
"""Bytes, about, that a fill's pattern is repeated to, so that long runs of it are copied from the nearest cache."""

COLUMN_BLOCK = 64 << 10
"""The same, at most, for a line of elements that lie apart: columns are put together of packed ones."""


def without_fills(program: Program, by_elements: bool = False) -> Program:
    """The same program with every fill as a constant that is read over and over.

    Engines then know one kind of source only. Long runs are cut into rows of about `FILL_BLOCK` bytes.

    Args:
        program: any.
        by_elements: runs are not cut into rows, but into elements as long as their pattern, where that divides a line
            of 64 bytes: for engines that fill faster than they copy.

    Examples:
        >>> from anydml import moves
        >>> fill = dml.FillValueConstantOperatorDesc(dml.TensorDesc("INT8", [4]), "INT8", 7)
        >>> [operand.role for operand in moves.without_fills(fill.program()).operands]
        ['output', 'constant']
    """
    patterns: dict[bytes, int] = {}
    for move in program.moves:
        if isinstance(move.source, Fill):
            patterns.setdefault(move.source.pattern, len(patterns))
    if not patterns:
        return program
    first = sum(operand.role != "scratch" for operand in program.operands)
    whole = dict.fromkeys(patterns, 0)
    for move in program.moves:
        if not isinstance(move.source, Fill):
            continue
        least = whole[move.source.pattern]
        if may_write_twice(move):
            # In pieces, the end of one element could come after the beginning of a later one.
            least = max(least, move.element_size)
        elif by_elements and (line := _line(move)) <= COLUMN_BLOCK:
            least = max(least, line)
        whole[move.source.pattern] = least
    blocks = [_block(pattern, least) for pattern, least in whole.items()]
    constants = tuple(
        Operand("constant", f"pattern of {len(pattern)} B", value=block)
        for pattern, block in zip(patterns, blocks, strict=True)
    )

    # Scratch comes after the new constants.
    numbers = {n: n + (len(constants) if n >= first else 0) for n in range(len(program.operands))}
    moves: list[Move] = []
    for move in program.moves:
        each = renumbered(move, numbers)
        if isinstance(each.source, Fill):
            number = patterns[each.source.pattern]
            moves += _rows(each, first + number, blocks[number].size, by_elements)
        else:
            moves.append(each)
    return replace(
        program,
        operands=(*program.operands[:first], *constants, *program.operands[first:]),
        moves=tuple(moves),
    )


def _block(pattern: bytes, least: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A pattern repeated until it fills whole lines of cache, if that takes no more than a block, or `least` bytes."""
    period = math.lcm(len(pattern), 64)
    if period > FILL_BLOCK:
        period = len(pattern)
    count = max(max(1, FILL_BLOCK // period) * (period // len(pattern)), least // len(pattern))
    return np.frombuffer(pattern * count, np.uint8)


def _line(move: Move) -> int:
    """Bytes of a line of elements with gaps between them; 0 of others."""
    return move.sizes[-1] * move.element_size if move.sizes and move.element_size <= 64 else 0


def _rows(move: Move, operand: int, block: int, by_elements: bool) -> Iterator[Move]:
    """A filling move with a block of its pattern as the source: one, or two where runs are longer than the block."""
    sizes, to, source, run = move
    still = (0,) * len(sizes)
    size = len(source.pattern) if isinstance(source, Fill) else run
    if by_elements and run > size and 64 % size == 0 and not to.lookups:
        every = Access(to.operand, to.offset, (*to.strides, size))
        yield Move((*sizes, run // size), every, Access(operand, 0, (*still, 0)), size)
        return
    if run <= block:
        steps = (*still[:-1], run) if by_elements and 0 < _line(move) <= block else still
        yield Move(sizes, to, Access(operand, 0, steps), run)
        return
    count, rest = divmod(run, block)
    lookups = tuple(_longer(lookup) for lookup in to.lookups)
    rows = Access(to.operand, to.offset, (*to.strides, block), lookups)
    yield Move((*sizes, count), rows, Access(operand, 0, (*still, 0)), block)
    if rest:
        yield Move(sizes, to._replace(offset=to.offset + count * block), Access(operand, 0, still), rest)


def _longer(lookup: Lookup) -> Lookup:
    """A lookup that stands still in one more dimension."""
    return lookup._replace(strides=(*lookup.strides, 0), lookups=tuple(map(_longer, lookup.lookups)))
