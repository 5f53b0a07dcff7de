"""Moves, and what is made of them: the one idea that every operator is lowered to.

    for every coordinate c of a box `sizes`:   destination[a(c)] = source[b(c)]

`move` says what a move is, `simplify` brings moves to the form that kernels are written for, `program` puts them in
order between operands, `order` says which may run together, `indices` what an index stands for.
"""

from __future__ import annotations

from anydml.moves.constant import Computed, Constant
from anydml.moves.fills import without_fills
from anydml.moves.indices import resolve
from anydml.moves.move import Access, Fill, Lookup, Move, Outside, extent, reordered, unless
from anydml.moves.order import stages
from anydml.moves.program import Operand, Program
from anydml.moves.simplify import SimpleMoves, simplify

__all__ = [
    "Access",
    "Computed",
    "Constant",
    "Fill",
    "Lookup",
    "Move",
    "Operand",
    "Outside",
    "Program",
    "SimpleMoves",
    "extent",
    "reordered",
    "resolve",
    "simplify",
    "stages",
    "unless",
    "without_fills",
]
