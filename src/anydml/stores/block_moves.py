"""Moves of one block, between arrays that hold its boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.engines import array_engine
from anydml.moves import Move, Operand, Program

Array = np.ndarray[Any, np.dtype[Any]]


def run_moves(moves: Sequence[Move], operands: Sequence[Array]) -> None:
    """Run moves once, in order.

    Args:
        moves: what to do.
        operands: by number; those that are written, too.
    """
    if moves:
        boxes = tuple([Operand("input", f"box {k}") for k in range(len(operands))])
        array_engine("plan", ()).compile_program(Program("a block", boxes, tuple(moves))).run(operands)
