"""A whole and its parts along an axis: rules and moves that SPLIT, JOIN, SplitTraining and ConcatTraining share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from anydml.moves import Access, Move, SimpleMoves
from anydml.moves.program import Coordinate
from anydml.operators.base import OperatorDesc
from anydml.operators.problem import Problem
from anydml.tensor import Layout, TensorDesc


def part_moves(
    whole: tuple[int, Layout], parts: Sequence[tuple[int, Layout]], axis: int, into_whole: bool
) -> tuple[Move, ...]:
    """Return one move per part, in order along `axis`.

    Args:
        whole: operand number and layout of the whole.
        parts: operand numbers and layouts; their sizes equal the whole's except along `axis`, where they add up to it.
        axis: 0 to rank − 1.
        into_whole: True joins the parts into the whole, False splits it into them.
    """
    operand, layout = whole
    moves = []
    start = 0
    for number, part in parts:
        inside = Access(operand, start * layout.strides[axis], layout.strides)
        outside = Access(number, 0, part.strides)
        ends = (inside, outside) if into_whole else (outside, inside)
        moves.append(Move(part.sizes, *ends, layout.element_size))
        start += part.sizes[axis]
    return tuple(moves)


def packed_part_moves(rows: int, runs: Sequence[int], into_whole: bool) -> tuple[Move, ...]:
    """Return the simplified moves of a whole and its parts if all are packed.

    Equal to simplifying `part_moves`, in a fraction of the time, which matters for calls with new sizes.

    Args:
        rows: number of rows of the whole, at least 1; each contains a run of every part.
        runs: each part's bytes per row.
        into_whole: True joins the parts (operands 0, 1 …) into the whole, False splits the whole (operand 0) into them.
    """
    whole = sum(runs)
    moves = []
    start = 0
    for number, run in enumerate(runs, 0 if into_whole else 1):
        if run:
            single = rows == 1 or run == whole
            part = Access(number, 0, () if single else (run,))
            place = Access(len(runs) if into_whole else 0, start, () if single else (whole,))
            ends = (place, part) if into_whole else (part, place)
            moves.append(Move((), *ends, rows * run) if single else Move((rows,), *ends, run))
            start += run
    return SimpleMoves(moves)


def rows_and_runs(parts: Sequence[Layout], axis: int) -> tuple[int, list[int]]:
    """Return the number of rows of packed parts in their whole, and each part's bytes per row."""
    sizes = parts[0].sizes
    run = math.prod(sizes[axis + 1 :]) * parts[0].element_size
    return math.prod(sizes[:axis]), [part.sizes[axis] * run for part in parts]


def part_elements(parts: Sequence[TensorDesc], axis: int) -> Iterator[tuple[int, Coordinate, Coordinate]]:
    """Yield, for every element of every part, the part's number and the coordinates in the part and in the whole."""
    start = 0
    for number, part in enumerate(parts):
        for at in itertools.product(*map(range, part.sizes)):
            yield number, at, (*at[:axis], start + at[axis], *at[axis + 1 :])
        start += part.sizes[axis]


def part_problems(
    desc: OperatorDesc, whole: tuple[str, TensorDesc], parts: Sequence[tuple[str, TensorDesc]], axis: int
) -> Iterator[Problem]:
    """The rules of DML_SPLIT_OPERATOR_DESC's pseudocode: equal sizes except along `axis`, where they add up."""
    name, tensor = whole
    array = parts[0][0].partition("[")[0]
    for part_name, part in parts:
        for d, (size, expected) in enumerate(zip(part.sizes, tensor.sizes, strict=True)):
            if d != axis and size != expected:
                message = f"{part_name}.Sizes[{d}] is {size}, but {name}.Sizes[{d}] is {expected}"
                rule = f"{array} must have the sizes of {name} in every dimension but Axis"
                yield desc.problem(f"{part_name}.Sizes[{d}]", message, rule)
    total = sum(part.sizes[axis] for _, part in parts)
    if total != tensor.sizes[axis]:
        message = f"{array} sizes along Axis {axis} add up to {total}, but {name}.Sizes[{axis}] is {tensor.sizes[axis]}"
        yield desc.problem(
            f"{array}.Sizes[{axis}]", message, f"the sizes of {array} along Axis must add up to {name}'s"
        )
