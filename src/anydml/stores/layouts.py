"""Layouts of blocks, each made once for all work that differs by its files alone, as the layers of a model do."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from anydml.stores.blocks import Cut, Layout, Work, laid_out
from anydml.stores.cutting import Rectangle

MOST_KEPT, MOST_PLACES = 64, 8192
"""Layouts that are kept, and places in files and buffers of each at most."""


class Layouts:
    """Layouts of a plan's blocks.

    Args:
        works: of the plan.
        cuts: how each is cut.
        alike: for each the number of the first that differs from it by its files alone.
    """

    def __init__(self, works: Sequence[Work], cuts: Sequence[Cut], alike: Sequence[int]) -> None:
        self._works, self._cuts, self._alike = works, cuts, alike
        self._turn = threading.Lock()
        self._kept: OrderedDict[Hashable, Layout] = OrderedDict()

    def of(self, number: int, operand: int, area: Rectangle) -> Layout:
        """The layout of a block: of which work, of which of its operands, and where."""
        first = self._alike[number]
        known, own = self._works[first].used, self._works[number].used
        key = first, own.index(operand), area
        layout = self._kept.get(key)
        if layout is None:
            layout = laid_out(self._works[first], self._cuts[first], known[own.index(operand)], area)
            if _places(layout) <= MOST_PLACES:
                with self._turn:
                    self._kept[key] = layout
                    if len(self._kept) > MOST_KEPT:
                        self._kept.popitem(last=False)
        if first == number:
            return layout
        numbers = dict(zip(known, own, strict=True))
        return layout._replace(
            reads=tuple(each._replace(operand=numbers[each.operand]) for each in layout.reads),
            writes=tuple(each._replace(operand=numbers[each.operand]) for each in layout.writes),
        )


def _places(layout: Layout) -> int:
    rows = 0 if layout.copied is None else layout.copied.to.size
    return rows + len(layout.moves) + sum(each.buffer.size for each in (*layout.reads, *layout.writes))
