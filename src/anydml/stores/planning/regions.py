"""Boxes of inputs that a box of an output needs, and the moves between boxes in memory.

Arrays are addressed in bytes, in row-major order, whether they lie in one file or in chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.engines import array_engine
from anydml.errors import BindingError
from anydml.moves import Access, Fill, Move, Operand, Program
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array
from anydml.stores.planning.boxes import offset_of, size_of
from anydml.stores.planning.cutting import parts, split_dimension
from anydml.stores.planning.indices import ReadOperand, resolved_moves
from anydml.tensor import Layout

NEIGHBOURS = 8
"""Most preceding boxes that a box is compared with, to be merged."""

BY_FILE = "write what comes before it to a file, and plan the rest from there"
"""What to do about a step of a plan that needs its whole input at once."""


class InputBox(NamedTuple):
    """A box of an input.

    Attributes:
        operand: number of the input.
        box: in its coordinates.
    """

    operand: int
    box: Box


def coordinates(distance: int, layout: Layout) -> tuple[list[int], int]:
    """An address, or a step, as coordinates of a packed array and a rest in bytes, all of one sign."""
    found, rest, sign = [], abs(distance), -1 if distance < 0 else 1
    for stride in layout.strides:
        count, rest = divmod(rest, stride)
        found.append(sign * count)
    return found, sign * rest


def box_of(end: Access, move: Move, layout: Layout) -> Box:
    """The smallest box of a packed array that holds all elements of one end of a move.

    Where a run continues in the next row, the box has all of the axes after that one.
    """
    offset, steps, found = end.offset, end.strides, list[tuple[int, int]]()
    for axis, stride in enumerate(layout.strides):
        whole = [step // stride if step >= 0 else -(-step // stride) for step in steps]
        rest = [step - own * stride for step, own in zip(steps, whole, strict=True)]
        first, inside = divmod(offset, stride)
        (low, high), (left, right) = (reach(move.sizes, each) for each in (whole, rest))
        if inside + left < 0 or inside + right + move.element_size > stride:
            low, high = reach(move.sizes, steps)
            low, high = (inside + low) // stride, (inside + high + move.element_size - 1) // stride
            return (*found, (first + low, first + high + 1), *((0, size) for size in layout.sizes[axis + 1 :]))
        found.append((first + low, first + high + 1))
        offset, steps = inside, tuple(rest)
    return tuple(found)


def reach(sizes: Sequence[int], steps: Sequence[int]) -> tuple[int, int]:
    """The smallest and the largest sum of steps."""
    ends = [(size - 1) * step for size, step in zip(sizes, steps, strict=True)]
    return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)


def in_box(end: Access, layout: Layout, box: Box, strides: Sequence[int], operand: int) -> Access:
    """One end of a move in a box that is in memory, or written there.

    Args:
        end: in the whole array.
        layout: of the whole array, which is packed.
        box: as `box_of`, or larger.
        strides: of the box in memory, in bytes.
        operand: that is the box.
    """

    def placed(distance: int) -> int:
        counts, rest = coordinates(distance, layout)
        return rest + sum(count * stride for count, stride in zip(counts, strides, strict=True))

    return Access(operand, placed(end.offset) - offset_of(box, strides), tuple(map(placed, end.strides)))


class RegionMap:
    """The way from boxes of an output to boxes of the inputs.

    Args:
        program: whose moves are not simplified, so that each dimension is along one axis of an output.
        number: of the output's operand.
        output: its layout.
        inputs: layouts of all inputs, which are packed.
        read: returns the bytes of a constant, or of an input that holds indices.
        hint: what to do if the output needs scratch.

    Attributes:
        moves: to the output, without lookups; inputs are their first operands, constants follow the outputs.
        picks: moves with lookups, and the places in `moves` of those that replace each.
        output: as above.
        inputs: likewise.

    Raises:
        BindingError: the output needs scratch, or looks up indices by indices.
        IndexError: an index lies outside where that is refused.
    """

    def __init__(
        self,
        program: Program,
        number: int,
        output: Layout,
        inputs: Sequence[Layout],
        read: ReadOperand,
        hint: str = BY_FILE,
    ) -> None:
        self.output, self.inputs = output, tuple(inputs)
        own = [move for move in program.moves if move.destination.operand == number and 0 not in move.sizes]
        for move in own:
            if isinstance(move.source, Access) and program.operands[move.source.operand].role == "scratch":
                raise BindingError(
                    f"{program.name}: a step needs its whole input at once "
                    f"({program.operands[move.source.operand].reason}): {hint}"
                )
        found: list[Move] = []
        picks: list[tuple[Move, range]] = []
        for move in own:
            first = len(found)
            found += map(self._by_axes, resolved_moves(program, move, read))
            if move.has_lookups:
                picks.append((move, range(first, len(found))))
        self.moves, self.picks = tuple(found), tuple(picks)
        bounds = [box_of(move.destination, move, output) for move in self.moves]
        self._bounds = np.array(bounds, np.int64).reshape(len(bounds), len(output.sizes), 2)

    def _by_axes(self, move: Move) -> Move:
        """The move with a dimension per axis where one runs over several axes of an input."""
        source = move.source
        if isinstance(source, Access) and source.operand < len(self.inputs):
            for pitch in self.inputs[source.operand].strides:
                for k, (size, stride) in enumerate(zip(move.sizes, move.reads.strides, strict=True)):
                    count = pitch // abs(stride) if stride else 0
                    if 1 < count < size and pitch % stride == 0 and size % count == 0:
                        move = split_dimension(move, k, count)
                        break
        return move

    def within(self, box: Box) -> list[Move]:
        """The parts of the moves that write a box of the output."""
        moves: Sequence[Move] = self.moves
        if len(moves) > 1 and box:
            low, high = np.array(box, np.int64).T
            near = ((self._bounds[:, :, 0] < high) & (self._bounds[:, :, 1] > low)).all(1)
            moves = [moves[k] for k in np.flatnonzero(near).tolist()]
        size = self.output.element_size
        area = (*box[:-1], (box[-1][0] * size, box[-1][1] * size)) if box else ((0, size),)
        return [each for move in moves for each in parts(move, "destination", self.output.strides[:-1], area)]

    def regions(self, moves: Sequence[Move]) -> list[InputBox]:
        """Boxes of inputs that moves read; close ones of one input are merged."""
        found: list[InputBox] = []
        for move in moves:
            source = move.source
            if isinstance(source, Fill) or source.operand >= len(self.inputs):
                continue
            region = InputBox(source.operand, box_of(source, move, self.inputs[source.operand]))
            last = range(max(0, len(found) - NEIGHBOURS), len(found))
            merged = next((k for k in last if _is_close(region, found[k])), None)
            if merged is None:
                found.append(region)
            else:
                found[merged] = _union(region, found[merged])
        return found

    def between(
        self,
        moves: Sequence[Move],
        box: Box,
        strides: Sequence[int],
        regions: Sequence[InputBox],
        held: Sequence[Array],
        numbers: dict[int, int],
    ) -> list[Move]:
        """Moves between boxes in memory.

        Args:
            moves: as `within` returns them.
            box: of the output.
            strides: of its memory, in bytes, by axis; its operand follows those of the regions.
            regions: boxes that hold the elements; what a move reads lies in one of them.
            held: their memory.
            numbers: operands by the numbers of constants; missing ones are added.
        """
        found = []
        for move in moves:
            source = move.source
            if isinstance(source, Access) and source.operand >= len(self.inputs):
                operand = numbers.setdefault(source.operand, len(regions) + 1 + len(numbers))
                source = source._replace(operand=operand)
            elif isinstance(source, Access):
                layout = self.inputs[source.operand]
                own = InputBox(source.operand, box_of(source, move, layout))
                place = next(k for k, each in enumerate(regions) if _is_inside(own, each))
                source = in_box(source, layout, regions[place].box, held[place].strides, place)
            to = in_box(move.destination, self.output, box, strides, len(regions))
            found.append(move._replace(destination=to, source=source))
        return found


def _is_inside(one: InputBox, other: InputBox) -> bool:
    pairs = zip(one.box, other.box, strict=False)
    return one.operand == other.operand and all(low >= first and high <= last for (low, high), (first, last) in pairs)


def _union(one: InputBox, other: InputBox) -> InputBox:
    pairs = zip(one.box, other.box, strict=True)
    return InputBox(one.operand, tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs))


def _is_close(one: InputBox, other: InputBox) -> bool:
    """Whether the union of two boxes is hardly larger than both together."""
    if one.operand != other.operand:
        return False
    return size_of(_union(one, other).box) * 4 <= 5 * (size_of(one.box) + size_of(other.box))


def compiled(moves: Sequence[Move], count: int) -> Any:
    """A program that runs moves once, in order, on a number of operands."""
    boxes = tuple([Operand("input", f"box {k}") for k in range(count)])
    return array_engine("plan", ()).compile_program(Program("a block", boxes, tuple(moves)))


def run_moves(moves: Sequence[Move], operands: Sequence[Array]) -> None:
    """Run moves once, in order.

    Args:
        moves: to run.
        operands: by number, including those that are written.
    """
    if moves:
        compiled(moves, len(operands)).run(operands)
