"""A permuted copy cut into blocks: two groups of axes, what a block has of each, and the words of a kernel's table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from anydml.engines.cpu.kernel_call import Word, units_per_claim
from anydml.moves import Move, extent

LINE = 64


class Axis(NamedTuple):
    """One dimension of a move: its size and its strides in bytes."""

    size: int
    to: int
    source: int


class Group:
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

    def __init__(self, axes: Sequence[Axis], goal: int, side: int, overlap: int) -> None:
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


class Blocks:
    """A move cut into blocks.

    Attributes:
        rows, columns: the groups I and J.
        pitch: bytes from row to row in scratch.
        packed: whether rows go through scratch on their way with non-temporal stores.

    Args:
        apart: no two blocks need to have lines in common.
        straight: rows of the destination are so long that their ends may be stored by parts of lines.
    """

    def __init__(
        self, move: Move, rows: list[Axis], columns: list[Axis], outer: list[Axis], goals: Sequence[int],
        side: int, streamed: bool, apart: bool = False, straight: bool = False,
    ) -> None:  # fmt: skip
        self._move = move
        self._streamed = streamed
        self._side = side
        self._straight = straight
        size = move.element_size
        # Seen from its other end, an axis along which the source runs backwards runs forwards, the destination back.
        flipped = [axis for axis in rows if axis.source < 0] if side > 1 else []
        self._to = move.destination.offset + sum((axis.size - 1) * axis.to for axis in flipped)
        self._from = move.reads.offset + sum((axis.size - 1) * axis.source for axis in flipped)
        rows = [Axis(axis.size, -axis.to, -axis.source) if side > 1 and axis.source < 0 else axis for axis in rows]
        self.packed = _is_packed(columns, size)
        overlap = -(-LINE // size) if streamed and self.packed and not apart else 0
        self.rows = Group(rows, goals[0], side, 0)
        self.columns = Group(columns, goals[1], side, overlap)
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

    def direct(self) -> int:
        """How tiles may be stored.

        0: through scratch. 1: at once. 2: with non-temporal stores, too, to whole lines. 3: and wherever rows begin.
        """
        side, columns, rows = self._side, self.columns, self.rows
        if columns.length < side or rows.length < side or side * self._move.element_size < LINE:
            return 0
        strides = [axis.to for axis in (*rows.axes, *self._outer)]
        starts = (columns.length, columns.step * columns.inner, columns.last * columns.inner)
        in_lines = not any(stride % LINE for stride in strides) and not any(start % side for start in starts)
        if not (self._streamed and in_lines and (columns.count == 1 or columns.shared == side)):
            return 1
        return 3 if self._straight else 2

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
            *(size, rows.length, columns.length, self.pitch, int(self._whole), self.direct(), int(self.packed)),
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


def _is_packed(columns: Sequence[Axis], size: int) -> bool:
    """Whether the elements of J lie side by side in the destination."""
    for axis in columns:
        if axis.to != size:
            return False
        size *= axis.size
    return True
