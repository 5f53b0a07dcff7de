"""Results in the memory of an argument: what stays where it is does not move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anydml.errors import BindingError
from anydml.memory.host import address_of
from anydml.moves import Access, Lookup, Move, Program
from anydml.moves.order import may_read_overwritten
from anydml.moves.program import renumbered

Array = np.ndarray[Any, Any]
Pairs = tuple[tuple[int, int], ...]
"""Numbers of inputs, each with that of the output that is the same memory."""


def donated(inputs: Sequence[Array], targets: Sequence[Array]) -> Pairs:
    """The inputs that are outputs, too: the same elements at the same addresses.

    Args:
        inputs: as the engines see them.
        targets: likewise, where the results go.
    """
    places = [_place(each) for each in inputs]
    return tuple(
        (number, output)
        for output, target in enumerate(targets, len(inputs))
        for number, place in enumerate(places)
        if target.size and place == _place(target)
    )


def _place(array: Array) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    return address_of(array), array.shape, array.strides, array.itemsize


def in_place(program: Program, pairs: Pairs, names: Sequence[str]) -> Program:
    """The same program for calls that give the memory of some inputs as outputs, too.

    Its operands are those of the program; moves name such an input by the number of its output.

    Args:
        program: for operands that lie apart.
        pairs: what `donated` found.
        names: of the inputs and outputs, for errors.

    Raises:
        BindingError: a move would read what it or an earlier one has written over an input.
    """
    program = _without_last_copies(program)
    same = dict(pairs)
    numbers = {number: same.get(number, number) for number in range(len(program.operands))}
    moves = [renumbered(move, numbers) for move in program.moves]
    staying = {k for k, move in enumerate(moves) if move.destination == move.source and not move.destination.lookups}
    for number, output in pairs:
        if may_read_overwritten(program.moves, staying, number, output):
            message = (
                f"{program.name}: {names[output]} overlaps {names[number]} in memory: it is all of it, but elements "
                "would be read after others were written over them; give another array as out"
            )
            rule = "an argument's memory may be out where all of it that is read is read before it is written"
            raise BindingError(message, program.name, names[output], rule)
    return program.with_moves([move for k, move in enumerate(moves) if k not in staying])


def _without_last_copies(program: Program) -> Program:
    """The same program, in which scratch that is copied to an output as it is, is this output from the start."""
    moves, operands = [*program.moves], program.operands
    for k in reversed(range(len(moves))):
        sizes, to, source, size = moves[k]
        if sizes or not isinstance(source, Access) or moves[k].has_lookups or to.offset or source.offset:
            continue
        is_whole = operands[source.operand].role == "scratch" and operands[source.operand].size == size
        if not is_whole or operands[to.operand].role != "output":
            continue
        if any(to.operand in _touched(each) for each in moves[:k]):
            continue
        if any(source.operand in _touched(each) for each in moves[k + 1 :]):
            continue
        numbers = {each: to.operand if each == source.operand else each for each in range(len(operands))}
        moves = [renumbered(each, numbers) for each in (*moves[:k], *moves[k + 1 :])]
    touched = set().union(*map(_touched, moves))
    kept = [n for n, operand in enumerate(operands) if operand.role != "scratch" or n in touched]
    numbers = {n: new for new, n in enumerate(kept)}
    moves = [renumbered(each, numbers) for each in moves]
    return replace(program, operands=tuple(operands[n] for n in kept), moves=tuple(moves))


def _touched(move: Move) -> set[int]:
    """The operands that a move reads or writes."""
    ends: list[Access | Lookup] = [
        move.destination,
        *([move.source] if isinstance(move.source, Access) else []),
        *move.every_lookup(),
    ]
    return {end.operand for end in ends}
