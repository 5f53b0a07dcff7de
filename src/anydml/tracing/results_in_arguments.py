"""Results in the memory of an argument, in which elements that keep their place are not moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anydml.errors import BindingError
from anydml.memory.host import address_of
from anydml.moves import Access, Lookup, Move, Program
from anydml.moves.dependencies import may_read_overwritten
from anydml.moves.move_numbers import renumber_operands

Array = np.ndarray[Any, Any]
Pairs = tuple[tuple[int, int], ...]
"""Pairs of input and output numbers that share their memory."""


def donated(inputs: Sequence[Array], targets: Sequence[Array]) -> Pairs:
    """Return the inputs that are also outputs: the same elements at the same addresses.

    Args:
        inputs: the inputs, as engines take them.
        targets: the arrays for the results, as engines take them.
    """
    input_addresses = [_place(array) for array in inputs]
    return tuple(
        (result_number, output)
        for output, target in enumerate(targets, len(inputs))
        for result_number, input_address in enumerate(input_addresses)
        if target.size and input_address == _place(target)
    )


def _place(array: Array) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    return address_of(array), array.shape, array.strides, array.itemsize


def in_place(program: Program, pairs: Pairs, names: Sequence[str]) -> Program:
    """Adapt a program to calls in which some inputs are also outputs.

    The operands stay; moves refer to such an input by the number of its output.

    Args:
        program: a program for operands that do not overlap.
        pairs: the result of `donated`.
        names: the inputs' and outputs' names in errors.

    Raises:
        BindingError: a move would read elements of an input that it or an earlier move overwrites.
    """
    program = without_last_copies(program)
    output_of = dict(pairs)
    numbers = {operand: output_of.get(operand, operand) for operand in range(len(program.operands))}
    moves = [renumber_operands(move, numbers) for move in program.moves]
    staying = {k for k, move in enumerate(moves) if move.destination == move.source and not move.destination.lookups}
    for operand, output in pairs:
        if may_read_overwritten(program.moves, staying, operand, output):
            message = (
                f"{program.name}: {names[output]} overlaps {names[operand]} in memory: it is the same array, but some "
                "elements would be overwritten before they are read; pass another array as out"
            )
            rule = "out may be an argument only if all of its elements are read before they are overwritten"
            raise BindingError(message, program.name, names[output], rule)
    return program.with_moves([move for k, move in enumerate(moves) if k not in staying])


def without_last_copies(program: Program) -> Program:
    """Replace scratch that is only copied to an output, with the same layout, by this output."""
    moves, operands = [*program.moves], program.operands
    for k in reversed(range(len(moves))):
        sizes, to, source, size = moves[k]
        if sizes or not isinstance(source, Access) or moves[k].has_lookups or to.offset or source.offset:
            continue
        is_whole = operands[source.operand].role == "scratch" and operands[source.operand].size == size
        if not is_whole or operands[to.operand].role != "output":
            continue
        if any(to.operand in _touched(move) for move in moves[:k]):
            continue
        if any(source.operand in _touched(move) for move in moves[k + 1 :]):
            continue
        numbers = {number: to.operand if number == source.operand else number for number in range(len(operands))}
        moves = [renumber_operands(move, numbers) for move in (*moves[:k], *moves[k + 1 :])]
    touched = set().union(*map(_touched, moves))
    remaining = [n for n, operand in enumerate(operands) if operand.role != "scratch" or n in touched]
    numbers = {n: new for new, n in enumerate(remaining)}
    moves = [renumber_operands(move, numbers) for move in moves]
    return replace(program, operands=tuple(operands[n] for n in remaining), moves=tuple(moves))


def _touched(move: Move) -> set[int]:
    """Return the operands that a move reads or writes."""
    ends: list[Access | Lookup] = [
        move.destination,
        *([move.source] if isinstance(move.source, Access) else []),
        *move.all_lookups(),
    ]
    return {end.operand for end in ends}
