"""Moves of one block: run by NumPy or by kernels, one program for all blocks that differ in where they begin alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.engines import array_engine, open_engine
from anydml.moves import Access, Move, Operand, Program
from anydml.moves.move import extent
from anydml.moves.program import renumbered
from anydml.stores.running import LONG, MOST_COMPILED

Array = np.ndarray[Any, np.dtype[Any]]


def run_moves(
    moves: Sequence[Move],
    operands: Sequence[Array],
    target: int,
    engine: threading.Lock,
    compiled: dict[tuple[Move, ...], Any] | None,
) -> None:
    """Run moves whose operands are bytes; those that differ in where they begin alone are one program.

    Args:
        moves: what to do.
        operands: by number.
        target: number of the operand that is written.
        engine: whoever has it may use the kernels.
        compiled: programs seen before; None where NumPy is to move all.
    """
    used = sorted({target, *(move.source.operand for move in moves if isinstance(move.source, Access))} - {target})
    used.append(target)
    lows = {
        operand: min(
            (
                extent(end, move.sizes, move.element_size)[0]
                for move in moves
                for end in (move.destination, move.source)
                if isinstance(end, Access) and end.operand == operand
            ),
            default=0,
        )
        for operand in used
    }
    numbers = {operand: k for k, operand in enumerate(used)}

    def shifted(end: Any) -> Any:
        return end._replace(offset=end.offset - lows[end.operand]) if isinstance(end, Access) else end

    own = tuple(
        renumbered(move._replace(destination=shifted(move.destination), source=shifted(move.source)), numbers)
        for move in moves
    )
    arrays = [operands[operand][lows[operand] :] for operand in used]
    if not own:
        return

    def program() -> Program:
        names = [*(Operand("input", f"box {k}") for k in range(len(used) - 1)), Operand("output", "what is written")]
        return Program("a block", tuple(names), own)

    if compiled is None or all(move.element_size >= LONG for move in own):
        open_engine("numpy").compile(program()).bind(arrays)()
        return
    with engine:
        found = compiled.get(own)
        if found is None:
            if len(compiled) >= MOST_COMPILED:
                compiled.clear()
            found = compiled[own] = array_engine("plan", ()).compile_program(program())
        found.run(arrays)
