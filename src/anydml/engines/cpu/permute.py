"""How a permuted copy is cut into blocks, and the table of the kernels that do them.

The source is read along a group of axes I, its innermost ones, the destination written along a group J, its innermost
ones. Axes join a group until its rows are long enough to fill lines; what is in neither is an outer loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from anydml.engines.cpu.columns import Admits
from anydml.engines.cpu.kernel_call import KernelCall, Word, kernel_call, units_per_claim
from anydml.moves import Move, extent

LINE = 64
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Bytes of elements that are turned in registers, and that have kernels of their own where they move one by one."""

STREAMED_BYTES = 1 << 20
"""Outputs larger than this are stored non-temporally: lines of many rows at a time would drive each other out."""

ROW_BYTES = {1: 64, 2: 128, 4: 256, 8: 256, 16: 256}
COLUMN_BYTES = {1: 256, 2: 256}
ROWS, COLUMNS = 128, 512
"""Bytes of a block along I and along J, by the size of an element, about; of others."""

WHOLE_BYTES = 12 << 10
"""Bytes of a block whose rows follow each other in the destination, about."""

TABLE_COLUMNS, TABLE_ROWS = 64, 16
"""Elements of a block along J and along I where they move one by one, about."""

ROWS_FROM, ROWS_TO = 8 << 10, 8 << 10
"""Bytes of a block of rows in the source and in the destination, about."""

FILLED = {1: 0.08, 2: 0.15, 3: 0.25, 4: 0.25, 6: 0.45, 8: 0.45, 12: 0.7, 16: 0.7}
"""The share of a tile that must be filled for it to be faster than to move its elements one by one."""


class _Axis(NamedTuple):
    """One dimension of a move: its size and its strides in bytes."""

    size: int
    to: int
    source: int


class _Group:
    """Axes that are walked together, the innermost first, cut into blocks along the last.

    Args:
        axes: at least one.
        goal: elements of a block, about.
        side: blocks of multiples of so many elements are better.
        overlap: elements that neighbouring blocks have in common at least.

    Attributes:
        inner: elements of one step of the last axis.
        length: elements of a block.
        step, last, count: how many steps of the last axis blocks are apart, where the last begins, how many there are.
        shared: elements that neighbouring blocks have in common, but for the last.
    """

    def __init__(self, axes: Sequence[_Axis], goal: int, side: int, overlap: int) -> None:
        self.axes = axes
        self.inner = math.prod(axis.size for axis in axes[:-1])
        size = axes[-1].size
        unit = side // math.gcd(side, self.inner)
        if unit * self.inner > 2 * goal:
            unit = 1
        most = max(1, goal // self.inner)
        self._block = min(size, _up(-(-size // -(-size // most)), unit))
        common = 0
        if self._block < size and overlap:
            common = _up(-(-overlap // self.inner), unit)
            self._block = min(size, self._block + common)
        self.step = max(1, self._block - common)
        self.last = size - self._block
        self.count = 1 + -(-self.last // self.step)
        self.length = self.inner * self._block
        self.shared = common * self.inner

    def offsets(self, strides: Sequence[int], least: int) -> list[int]:
        """Where each element of a block lies, given a stride for each axis; at least so many, the last one again."""
        result = [0]
        for axis, stride in zip(self.axes, strides, strict=True):
            size = self._block if axis is self.axes[-1] else axis.size
            result = [at + k * stride for k in range(size) for at in result]
        return result + result[-1:] * (least - len(result))


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def permuted(move: Move, streamed: bool, admits: Admits) -> KernelCall:
    """The step for a move of at least two dimensions.

    Args:
        move: simplified, without lookups.
        streamed: whether to use non-temporal stores.
        admits: whether elements of an odd size may have a kernel.
    """
    streamed = streamed or move.bytes_written > STREAMED_BYTES
    return _turned(move, streamed) or _by_tables(move, streamed, admits)


def _turned(move: Move, streamed: bool) -> KernelCall | None:
    """The step with tiles in registers, or None where elements do not lie side by side, or would fill no tiles."""
    size = move.element_size
    if size not in SIZES:
        return None
    from anydml.engines.cpu.kernels.blocks import BLOCK
    from anydml.engines.cpu.kernels.tiles import side_of
    from anydml.engines.cpu.kernels.turn import turn_kernel

    side = side_of(size)
    goals = [max(side, ROW_BYTES.get(size, ROWS) // size), max(side, COLUMN_BYTES.get(size, COLUMNS) // size)]
    is_long = False
    while True:
        chosen = _choose(move, goals, packed=True)
        if chosen is None:
            return None
        rows, columns, outer = chosen
        lengths = [math.prod(axis.size for axis in group) for group in (rows, columns)]
        if math.prod(min(length, side) for length in lengths) < FILLED[size] * side * side:
            return None
        if lengths[1] <= goals[1] and lengths[1] * size < 1024 and not is_long:
            is_long = True
            # Whole rows: many of them, so that those which follow each other make long runs.
            goals[0] = max(goals[0], WHOLE_BYTES // (lengths[1] * size))
            rows, columns, outer = _choose(move, goals, packed=True) or chosen
        blocks = _Blocks(move, rows, columns, outer, goals, side, streamed)
        if max(blocks.rows.length, side) * blocks.pitch <= BLOCK:
            break
        if max(goals) <= side:
            return None
        larger = int(goals[1] > goals[0])
        goals[larger] = max(side, goals[larger] // 2)
    reason = f"elements of {size} B permuted, in tiles of {side}×{side}, blocks of {blocks}"
    return kernel_call("turn", partial(turn_kernel, size), reason, (move,), blocks.words())


def _by_tables(move: Move, streamed: bool, admits: Admits) -> KernelCall:
    """The step that moves elements one by one."""
    from anydml.engines.cpu.kernels.blocks import BLOCK
    from anydml.engines.cpu.kernels.table import table_kernel

    size = move.element_size
    goals = [TABLE_ROWS, max(1, min(TABLE_COLUMNS, 2048 // size))]
    rows, columns, outer = _choose(move, goals, packed=False) or ([], [], [])
    blocks = _Blocks(move, rows, columns, outer, goals, 1, streamed)
    if blocks.rows.length * blocks.pitch > BLOCK:
        blocks.packed = False
    common = size in SIZES or admits(f"table {size}", move.bytes_written)
    reason = f"elements of {size} B permuted one by one, blocks of {blocks}"
    return kernel_call("table", partial(table_kernel, size if common else 0), reason, (move,), blocks.words())


def permuted_rows(move: Move) -> KernelCall:
    """The step for rows that are too long for an element and too short to be read in any order (see `row_blocks`).

    Args:
        move: simplified, without lookups, of at least one dimension; its rows lie side by side in the destination,
            and are stored past the caches.
    """
    from anydml.engines.cpu.kernels.row_blocks import STAGE, row_blocks_kernel

    size = move.element_size
    if len(move.sizes) == 1:
        to, source = (end._replace(strides=(0, *end.strides)) for end in (move.destination, move.reads))
        move = Move((1, *move.sizes), to, source, size)
    goals = [max(1, bytes_ // size) for bytes_ in (ROWS_FROM, ROWS_TO)]
    rows, columns, outer = _choose(move, goals, packed=False) or ([], [], [])
    blocks = _Blocks(move, rows, columns, outer, goals, 1, streamed=True, apart=True)
    blocks.pitch = STAGE // size
    reason = f"rows of {size} B, blocks of {blocks} of them, past the caches"
    return kernel_call("row_blocks", row_blocks_kernel, reason, (move,), blocks.words())


def _choose(move: Move, goals: Sequence[int], packed: bool) -> tuple[list[_Axis], list[_Axis], list[_Axis]] | None:
    """The axes of I and J, the innermost first, and the others, the outermost first.

    Args:
        move: what is to be done.
        goals: elements that I and J should have.
        packed: whether elements must lie side by side, along I in the source and along J in the destination.
    """
    size = move.element_size
    axes = [_Axis(*axis) for axis in zip(move.sizes, move.destination.strides, move.reads.strides, strict=True)]
    left_to, left_from = axes[::-1], sorted(axes, key=lambda axis: abs(axis.source) or math.inf)
    groups: list[list[_Axis]] = [[], []]
    blocked = [False, False]
    while not all(blocked):
        lengths = [math.prod(axis.size for axis in group) for group in groups]
        # First one axis each, then whichever is shorter of its goal.
        which = min((0, 1), key=lambda k: (blocked[k], bool(groups[k]), lengths[k] / goals[k], -k))
        if groups[which] and lengths[which] >= goals[which]:
            blocked[which] = True
            continue
        queue = (left_from, left_to)[which]
        while queue and not packed and any(queue[0] is axis for group in groups for axis in group):
            queue.pop(0)
        axis = queue[0] if queue else None
        if axis is None or any(axis is other for group in groups for other in group):
            blocked[which] = True
            continue
        if packed and (axis.to if which else abs(axis.source)) != size * lengths[which]:
            blocked[which] = True
            continue
        groups[which].append(queue.pop(0))
    if not all(groups):
        return None
    used = {id(axis) for group in groups for axis in group}
    return groups[0], groups[1], [axis for axis in axes if id(axis) not in used]


class _Blocks:
    """A move cut into blocks.

    Attributes:
        rows, columns: the groups I and J.
        pitch: bytes from row to row in scratch.
        packed: whether rows go through scratch on their way with non-temporal stores.

    Args:
        apart: no two blocks need to have lines in common.
    """

    def __init__(
        self, move: Move, rows: list[_Axis], columns: list[_Axis], outer: list[_Axis], goals: Sequence[int],
        side: int, streamed: bool, apart: bool = False,
    ) -> None:  # fmt: skip
        self._move = move
        self._streamed = streamed
        self._side = side
        size = move.element_size
        # Seen from its other end, an axis along which the source runs backwards runs forwards, the destination back.
        flipped = [axis for axis in rows if axis.source < 0] if side > 1 else []
        self._to = move.destination.offset + sum((axis.size - 1) * axis.to for axis in flipped)
        self._from = move.reads.offset + sum((axis.size - 1) * axis.source for axis in flipped)
        rows = [_Axis(axis.size, -axis.to, -axis.source) if side > 1 and axis.source < 0 else axis for axis in rows]
        self.packed = _is_packed(columns, size)
        overlap = -(-LINE // size) if streamed and self.packed and not apart else 0
        self.rows = _Group(rows, goals[0], side, 0)
        self.columns = _Group(columns, goals[1], side, overlap)
        self._outer = outer
        run = self.columns.length * size
        strides = [axis.to for axis in rows]
        self._whole = (
            self.packed
            and self.columns.count == 1
            # Tiles of padded elements overwrite what comes after a row.
            and (side * size == LINE or side == 1 or self.columns.length <= side)
            and self.rows.offsets(strides, 0) == [run * k for k in range(self.rows.length)]
        )
        self.pitch = run if self._whole else _up(run, LINE) + LINE

    def _direct(self) -> int:
        """0: tiles go through scratch; 1: they may be stored at once; 2: with non-temporal stores, too."""
        side, columns, rows = self._side, self.columns, self.rows
        if columns.length < side or rows.length < side or side * self._move.element_size < LINE:
            return 0
        strides = [axis.to for axis in (*rows.axes, *self._outer)]
        starts = (columns.length, columns.step * columns.inner, columns.last * columns.inner)
        is_aligned = not any(stride % LINE for stride in strides) and not any(start % side for start in starts)
        return 2 if self._streamed and is_aligned and (columns.count == 1 or columns.shared == side) else 1

    def words(self) -> list[Word]:
        """The words of the kernel's table."""
        move, rows, columns, side = self._move, self.rows, self.columns, self._side
        to, source, size = move.destination, move.reads, move.element_size
        last_i, last_j = rows.axes[-1], columns.axes[-1]
        least_i, least_j = (side, side) if side > 1 else (0, 0)
        from_columns = columns.offsets([axis.source for axis in columns.axes], least_j)
        units = math.prod(axis.size for axis in self._outer) * rows.count * columns.count
        end = extent(source, move.sizes, size)[1]
        return [
            *(units, units_per_claim(units, move.bytes_written), int(self._streamed), 1, len(self._outer)),
            *(size, rows.length, columns.length, self.pitch, int(self._whole), self._direct(), int(self.packed)),
            max(0, *from_columns),
            *(rows.count, rows.step, rows.last, last_i.to, last_i.source),
            *(columns.count, columns.step, columns.last, last_j.to, last_j.source),
            *((to.operand, self._to), (source.operand, self._from), (source.operand, end)),
            *(axis.size for axis in self._outer),
            *(axis.to for axis in self._outer),
            *(axis.source for axis in self._outer),
            *from_columns,
            *rows.offsets([axis.to for axis in rows.axes], least_i),
            *(self.pitch * k for k in range(max(rows.length, least_i))),
            *rows.offsets([axis.source for axis in rows.axes], least_i),
            *columns.offsets([axis.to for axis in columns.axes], least_j),
            *(LINE * k for k in range(least_i)),
        ]

    def __str__(self) -> str:
        return f"{self.rows.length}×{self.columns.length}"


def _is_packed(columns: Sequence[_Axis], size: int) -> bool:
    """Whether the elements of J lie side by side in the destination."""
    for axis in columns:
        if axis.to != size:
            return False
        size *= axis.size
    return True
