"""Fills as copies: engines support one kind of source, so a pattern becomes a constant that is read with stride 0."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from anydml.moves.move import Access, Fill, Lookup, Move
from anydml.moves.move_numbers import renumber_operands
from anydml.moves.program import Operand, Program, may_write_twice

FILL_BLOCK = 4096
"""Approximate bytes of a constant to which a pattern is repeated: long runs are copied from the first-level cache."""


def without_fills(program: Program) -> Program:
    """Replace every fill of a program by a constant that is read repeatedly.

    Long runs are divided into rows of about `FILL_BLOCK` bytes.

    Args:
        program: any program.

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
    sizes = dict.fromkeys(patterns, 0)
    for move in program.moves:
        if not isinstance(move.source, Fill):
            continue
        min_bytes = sizes[move.source.pattern]
        if may_write_twice(move):
            # With lookups, elements are written in order, so none may be divided.
            min_bytes = max(min_bytes, move.element_size)
        sizes[move.source.pattern] = min_bytes
    blocks = [_block(pattern, min_bytes) for pattern, min_bytes in sizes.items()]
    constants = tuple(
        Operand("constant", f"pattern of {len(pattern)} B", value=block)
        for pattern, block in zip(patterns, blocks, strict=True)
    )

    # The new constants precede the scratch operands.
    numbers = {n: n + (len(constants) if n >= first else 0) for n in range(len(program.operands))}
    moves: list[Move] = []
    for move in program.moves:
        new_move = renumber_operands(move, numbers)
        if isinstance(new_move.source, Fill):
            number = patterns[new_move.source.pattern]
            moves += _rows(new_move, first + number, blocks[number].size)
        else:
            moves.append(new_move)
    operands = (*program.operands[:first], *constants, *program.operands[first:])
    return Program(program.name, operands, tuple(moves), program.formula, program.host_kernel)


def _block(pattern: bytes, min_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Repeat a pattern to a multiple of the cache line, within `FILL_BLOCK` bytes if possible, at least `min_bytes`."""
    period = math.lcm(len(pattern), 64)
    if period > FILL_BLOCK:
        period = len(pattern)
    count = max(max(1, FILL_BLOCK // period) * (period // len(pattern)), min_bytes // len(pattern))
    return np.frombuffer(pattern * count, np.uint8)


def _rows(move: Move, operand: int, block: int) -> Iterator[Move]:
    """Yield a fill as copies from a block of its pattern: one move, or two if runs are longer than the block."""
    sizes, to, _, run = move
    still = (0,) * len(sizes)
    if run <= block:
        yield Move(sizes, to, Access(operand, 0, still), run)
        return
    count, tail = divmod(run, block)
    lookups = tuple(_with_dimension(lookup) for lookup in to.lookups)
    rows = Access(to.operand, to.offset, (*to.strides, block), lookups)
    yield Move((*sizes, count), rows, Access(operand, 0, (*still, 0)), block)
    if tail:
        yield Move(sizes, to._replace(offset=to.offset + count * block), Access(operand, 0, still), tail)


def _with_dimension(lookup: Lookup) -> Lookup:
    """Append a dimension of stride 0 to a lookup."""
    return lookup._replace(strides=(*lookup.strides, 0), lookups=tuple(map(_with_dimension, lookup.lookups)))
