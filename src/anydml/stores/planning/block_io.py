"""Requests and moves of blocks, shared by groups that differ only in their files, such as the layers of a model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from anydml.stores.planning.blocks import BlockIO, Cut, MoveGroup, block_io
from anydml.stores.planning.cutting import Rectangle

MOST_KEPT, MOST_PLACES = 64, 8192
"""Most blocks that are cached, and most offsets of each."""


class BlockIOCache:
    """Requests and moves of a plan's blocks.

    Args:
        groups: the groups of moves of the plan.
        cuts: one per group.
        alike: for each group the number of the first one that differs only in its files.
    """

    def __init__(self, groups: Sequence[MoveGroup], cuts: Sequence[Cut], alike: Sequence[int]) -> None:
        self._groups, self._cuts, self._alike = groups, cuts, alike
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, BlockIO] = OrderedDict()

    def of(self, number: int, operand: int, area: Rectangle) -> BlockIO:
        """Requests and moves of a block, by its group, operand and area."""
        first = self._alike[number]
        known, own = self._groups[first].used, self._groups[number].used
        key = first, own.index(operand), area
        io = self._kept.get(key)
        if io is None:
            io = block_io(self._groups[first], self._cuts[first], known[own.index(operand)], area)
            if _places(io) <= MOST_PLACES:
                with self._lock:
                    self._kept[key] = io
                    if len(self._kept) > MOST_KEPT:
                        self._kept.popitem(last=False)
        if first == number:
            return io
        numbers = dict(zip(known, own, strict=True))
        return io._replace(
            reads=tuple(each._replace(operand=numbers[each.operand]) for each in io.reads),
            writes=tuple(each._replace(operand=numbers[each.operand]) for each in io.writes),
        )


def _places(io: BlockIO) -> int:
    rows = 0 if io.copied is None else io.copied.to.size
    return rows + len(io.moves) + sum(each.buffer.size for each in (*io.reads, *io.writes))
