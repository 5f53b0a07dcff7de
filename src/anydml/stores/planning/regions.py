"""Boxes of inputs that a box of an output needs, and the moves between boxes in memory.

Arrays are addressed in bytes, in row-major order, whether they lie in one file or in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from anydml.engines import array_engine
from anydml.errors import BindingError
from anydml.moves import Access, Move, Operand, Program
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array
from anydml.stores.planning.block_shapes import offset_of, size_of
from anydml.stores.planning.cutting import boxes_in, part_of, split_dimension
from anydml.stores.planning.known_lookups import ReadOperand, pick_of, runs_of
from anydml.stores.planning.picks import CellOf, Pick, PickedBox, box_between, reach
from anydml.tensor import Layout

FEW_MOVES = 64
"""Maximum runs of a pick that becomes a move per run; larger picks of inputs are looked up element by element."""

NEIGHBOURS = 8
"""Maximum number of preceding boxes that a box is compared with, to be merged."""

BY_FILE = "write what comes before it to a file, and plan the rest from there"
"""The advice in errors about a step of a plan that needs its whole input at once."""


class InputBox(NamedTuple):
    """A box of an input.

    Attributes:
        operand: number of the input.
        box: the box, in the input's coordinates.
    """

    operand: int
    box: Box


def coordinates(address: int, layout: Layout) -> list[int]:
    """Return the coordinates of the element of a packed array that has the byte at an address."""
    result = []
    for stride in layout.strides:
        count, address = divmod(address, stride)
        result.append(count)
    return result


def to_coordinates(end: Access, sizes: Sequence[int], layout: Layout) -> tuple[list[int], list[list[int]]]:
    """Return one end of a move in the coordinates of a packed array.

    An address is that of one element, whereas a stride may be the sum of steps along several axes. So steps are those
    between the elements with which a dimension begins and ends. A dimension that runs on in other rows has the
    steps of which its stride is the sum if all have its sign.

    Args:
        end: the access of one side of the move.
        sizes: the sizes of the move's box.
        layout: the memory layout of the array.

    Returns:
        The coordinates of the first element, and for each dimension steps along each axis.
    """
    first, steps_by_dimension = coordinates(end.offset, layout), []
    for size, stride in zip(sizes, end.strides, strict=True):
        last = coordinates(end.offset + (size - 1) * stride, layout)
        leads, count = [to - start for start, to in zip(first, last, strict=True)], max(1, size - 1)
        if any(lead % count for lead in leads):
            leads, count = coordinates(abs(stride), layout), -1 if stride < 0 else 1
        steps_by_dimension.append([lead // count for lead in leads])
    return first, steps_by_dimension


def box_of(end: Access, move: Move, layout: Layout) -> Box:
    """Return the smallest box of a packed array that holds all elements of one end of a move, as `box_between`."""
    first, steps_by_dimension = to_coordinates(end, move.sizes, layout)
    # An element of the move may be several of the array.
    run = max(1, move.element_size // layout.element_size)
    steps_by_dimension.append([*(0,) * (len(first) - 1), 1] if first else [])
    below, above = reach((*move.sizes, run), steps_by_dimension, len(first))
    low, high = (
        [at + change for at, change in zip(first, more_of_axes, strict=True)] for more_of_axes in (below, above)
    )
    return box_between(low, high, layout.sizes)


def access_in_box(
    end: Access, sizes: Sequence[int], layout: Layout, box: Box, strides: Sequence[int], operand: int
) -> Access:
    """Return one end of a move, in the coordinates of a box in memory.

    Args:
        end: the access to the whole array.
        sizes: the sizes of the move's box.
        layout: the layout of the whole array, which is packed.
        box: as `box_of`, or larger.
        strides: the strides of the box in memory, in bytes.
        operand: the number of the operand that holds the box.
    """
    first, steps_by_dimension = to_coordinates(end, sizes, layout)
    nearer = [stride - old_stride for stride, old_stride in zip(strides, layout.strides, strict=True)]

    def convert_distance(distance: int, counts: Sequence[int]) -> int:
        return distance + sum(count * change for count, change in zip(counts, nearer, strict=True))

    strides_in_box = tuple(map(convert_distance, end.strides, steps_by_dimension))
    return Access(operand, convert_distance(end.offset, first) - offset_of(box, strides), strides_in_box)


class RegionMap:
    """The way from boxes of an output to boxes of the inputs.

    Args:
        program: a program whose moves are not simplified, so that each dimension is along one axis of an output.
        operand: the number of the output's operand.
        output: the layout of the output.
        inputs: layouts of all inputs, which are packed.
        read: returns the bytes of a constant, or of an input that holds indices.
        hint: advice for the error if the output needs scratch.

    Attributes:
        moves: to the output, without lookups; inputs are their first operands, constants follow the outputs.
        picks: all picks, and the places in `moves` of the moves that replace each.
        many: the picks that no moves replace.
        output: as given.
        inputs: as given.

    Raises:
        BindingError: the output needs scratch, or looks up indices by indices.
        IndexError: an index lies outside where that is refused.
    """

    def __init__(
        self,
        program: Program,
        operand: int,
        output: Layout,
        inputs: Sequence[Layout],
        read: ReadOperand,
        hint: str = BY_FILE,
    ) -> None:
        self.output, self.inputs = output, tuple(inputs)
        moves = [move for move in program.moves if move.destination.operand == operand and 0 not in move.sizes]
        for move in moves:
            if isinstance(move.source, Access) and program.operands[move.source.operand].role == "scratch":
                raise BindingError(
                    f"{program.name}: a step needs its whole input at once "
                    f"({program.operands[move.source.operand].reason}): {hint}"
                )
        new_moves: list[Move] = []
        picks: list[tuple[Move, Pick, range]] = []
        many: list[Pick] = []
        for move in moves:
            first = len(new_moves)
            if not move.has_lookups:
                new_moves.append(self._by_axes(move))
                continue
            pick = pick_of(program, move, read)
            if pick.runs > FEW_MOVES and pick.operand < len(inputs):
                many.append(pick)
            else:
                new_moves += map(self._by_axes, runs_of(program, pick))
            picks.append((move, pick, range(first, len(new_moves))))
        self.moves, self.picks, self.many = tuple(new_moves), tuple(picks), tuple(many)
        self._parts: tuple[Move | Pick, ...] = (*self.moves, *self.many)
        bounds = [box_of(move.destination, move, output) for move in map(_move_of, self._parts)]
        self._bounds = np.array(bounds, np.int64).reshape(len(bounds), len(output.sizes), 2)

    def _by_axes(self, move: Move) -> Move:
        """Return the move with every dimension that runs over several axes of an input divided by axis."""
        source = move.source
        if isinstance(source, Access) and source.operand < len(self.inputs):
            for pitch in self.inputs[source.operand].strides:
                for k, (size, stride) in enumerate(zip(move.sizes, move.reads.strides, strict=True)):
                    count = pitch // abs(stride) if stride else 0
                    if 1 < count < size and pitch % stride == 0 and size % count == 0:
                        move = split_dimension(move, k, count)
                        break
        return move

    def parts_writing(self, box: Box) -> list[Move | Pick]:
        """Return the parts of the moves and picks that write a box of the output."""
        candidates: Sequence[Move | Pick] = self._parts
        if len(candidates) > 1 and box:
            low, high = np.array(box, np.int64).T
            is_near = ((self._bounds[:, :, 0] < high) & (self._bounds[:, :, 1] > low)).all(1)
            candidates = [candidates[k] for k in np.flatnonzero(is_near).tolist()]
        size, pitches = self.output.element_size, self.output.strides[:-1]
        area = (*box[:-1], (box[-1][0] * size, box[-1][1] * size)) if box else ((0, size),)
        return [
            part_of(move, spans) if isinstance(move, Move) else move.part(spans)
            for move in candidates
            for spans in boxes_in(_move_of(move), "destination", pitches, area)
        ]

    def regions(self, parts: Sequence[Move | Pick], cell_of: CellOf) -> list[InputBox]:
        """Return boxes of inputs that parts read; close ones of one input are merged.

        Args:
            parts: as `parts_writing` returns them.
            cell_of: returns the numbers of the cells, such as chunks, in which coordinates of inputs lie.
        """
        boxes: list[InputBox] = []
        for region in self._regions(parts, cell_of):
            last = range(max(0, len(boxes) - NEIGHBOURS), len(boxes))
            merged = next((k for k in last if _is_close(region, boxes[k])), None)
            if merged is None:
                boxes.append(region)
            else:
                boxes[merged] = _union(region, boxes[merged])
        return boxes

    def _regions(self, parts: Sequence[Move | Pick], cell_of: CellOf) -> Iterator[InputBox]:
        for part in parts:
            if isinstance(part, Pick):
                yield from (InputBox(part.operand, inner.box) for inner in self._boxes(part, cell_of))
            elif isinstance(part.source, Access) and part.source.operand < len(self.inputs):
                yield InputBox(part.source.operand, box_of(part.source, part, self.inputs[part.source.operand]))

    def _boxes(self, pick: Pick, cell_of: CellOf) -> Iterator[PickedBox]:
        layout = self.inputs[pick.operand]
        return pick.boxes(layout, to_coordinates(pick.move.reads, pick.move.sizes, layout)[1], cell_of)

    def between(
        self,
        parts: Sequence[Move | Pick],
        cell_of: CellOf,
        box: Box,
        strides: Sequence[int],
        regions: Sequence[InputBox],
        arrays: Sequence[Array],
        constants: Mapping[int, Array],
    ) -> tuple[list[Move], list[Array]]:
        """Return moves between boxes in memory.

        Args:
            parts: as `parts_writing` returns them.
            cell_of: as of `regions`.
            box: the box of the output.
            strides: of its memory, in bytes, by axis; its operand follows those of the regions.
            regions: boxes that hold the elements; what a part reads lies in one of them.
            arrays: their memory.
            constants: by the operands of the moves.

        Returns:
            The moves, and their operands after that of the output.
        """
        moves, constant_arrays, numbers = list[Move](), list[Array](), dict[int, int]()

        def added(array: Array) -> int:
            constant_arrays.append(array)
            return len(regions) + len(constant_arrays)

        def held_in(operand: int, box_of_part: Callable[[], Box]) -> int:
            numbers = [k for k, region in enumerate(regions) if region.operand == operand]
            if len(numbers) == 1:
                return numbers[0]
            part_box = InputBox(operand, box_of_part())
            return next(k for k in numbers if _is_inside(part_box, regions[k]))

        for part in parts:
            move, source = _move_of(part), _move_of(part).source
            to = access_in_box(move.destination, move.sizes, self.output, box, strides, len(regions))
            if isinstance(part, Pick):
                layout = self.inputs[part.operand]
                for inner in self._boxes(part, cell_of):
                    place = held_in(part.operand, partial(tuple, inner.box))
                    held_box, pitches = regions[place].box, arrays[place].strides
                    source = access_in_box(move.reads, move.sizes, layout, held_box, pitches, place)._replace(offset=0)
                    moves.append(part.cell_move(inner, to, held_box, pitches, source, added))
                continue
            if isinstance(source, Access) and source.operand >= len(self.inputs):
                if source.operand not in numbers:
                    numbers[source.operand] = added(np.asarray(constants[source.operand]))
                source = source._replace(operand=numbers[source.operand])
            elif isinstance(source, Access):
                layout = self.inputs[source.operand]
                place = held_in(source.operand, partial(box_of, source, move, layout))
                source = access_in_box(source, move.sizes, layout, regions[place].box, arrays[place].strides, place)
            moves.append(move._replace(destination=to, source=source))
        return moves, constant_arrays


def _move_of(part: Move | Pick) -> Move:
    return part if isinstance(part, Move) else part.move


def _is_inside(inner: InputBox, outer: InputBox) -> bool:
    pairs = zip(inner.box, outer.box, strict=False)
    return inner.operand == outer.operand and all(low >= first and high <= last for (low, high), (first, last) in pairs)


def _union(x: InputBox, y: InputBox) -> InputBox:
    pairs = zip(x.box, y.box, strict=True)
    return InputBox(x.operand, tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs))


def _is_close(x: InputBox, y: InputBox) -> bool:
    """Whether the union of two boxes is at most a quarter larger than both together."""
    if x.operand != y.operand:
        return False
    return size_of(_union(x, y).box) * 4 <= 5 * (size_of(x.box) + size_of(y.box))


def compile_moves(moves: Sequence[Move], count: int) -> Any:
    """Return a program that runs moves once, in order, on a number of operands."""
    boxes = tuple([Operand("input", f"box {k}") for k in range(count)])
    return array_engine("plan", ()).compile_program(Program("a block", boxes, tuple(moves)))


def run_moves(moves: Sequence[Move], operands: Sequence[Array]) -> None:
    """Run moves once, in order.

    Args:
        moves: the moves to run.
        operands: the operands by number, including those that are written.
    """
    if moves:
        compile_moves(moves, len(operands)).run(operands)
