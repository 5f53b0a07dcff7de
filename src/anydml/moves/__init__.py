"""Moves, the one primitive that every operator is lowered to, and programs and values made of them.

    for every coordinate c of a box `sizes`:   destination[a(c)] = source[b(c)]

`move` defines moves, `simplify` brings them to the form that kernels expect, `program` orders them between operands,
`dependencies` finds moves that may run concurrently, `wrapped_indices` defines how an index is wrapped and clamped.
"""

from __future__ import annotations

from anydml.moves.constant import Constant, LazyConstant
from anydml.moves.dependencies import stages
from anydml.moves.fills import without_fills
from anydml.moves.move import Access, Fill, Lookup, Move, OutOfRange, byte_range, permute_dimensions, unless
from anydml.moves.program import Operand, Program
from anydml.moves.simplify import SimpleMoves, simplify
from anydml.moves.wrapped_indices import resolve

__all__ = [
    "Access",
    "Constant",
    "Fill",
    "LazyConstant",
    "Lookup",
    "Move",
    "Operand",
    "OutOfRange",
    "Program",
    "SimpleMoves",
    "byte_range",
    "permute_dimensions",
    "resolve",
    "simplify",
    "stages",
    "unless",
    "without_fills",
]
