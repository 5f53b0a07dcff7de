"""The columns of a picture: what is read on the left, what is written on the right, scratch between them.

Pages that are narrow show the columns below each other: their style sheet moves each by its own ``--x`` and ``--y``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anydml.explain.section import Tensor

MARGIN, MIDDLE = 16, 150
"""Pixels around and between tensors, and between columns: arrows have room there."""

_ROLES = (("input", "constant"), ("scratch",), ("output",))


@dataclass(frozen=True)
class Column:
    """Tensors below each other.

    Attributes:
        members: their numbers.
        x: where the column begins.
        width: of the widest.
        bottom: the first pixel below.
        above: pixels that the columns before it take where all are below each other.
    """

    members: tuple[int, ...]
    x: int
    width: int
    bottom: int
    above: int

    def group(self, parts: Sequence[str]) -> list[str]:
        """What is drawn in this column: it moves with it."""
        return [f'<g class="part" style="--x:{MARGIN - self.x}px;--y:{self.above}px">', *parts, "</g>"]


def arrange(
    tensors: Sequence[Tensor], sizes: Mapping[int, tuple[int, int]]
) -> tuple[list[Column], dict[int, tuple[int, int]]]:
    """The columns, and where each tensor begins, of those tensors whose widths and heights are given."""
    columns: list[Column] = []
    places: dict[int, tuple[int, int]] = {}
    x, above = MARGIN, 0
    for roles in _ROLES:
        members = tuple(k for k in sizes if tensors[k].role in roles)
        if members:
            y = MARGIN
            for k in members:
                places[k] = x, y
                y += sizes[k][1] + MARGIN
            width = max(sizes[k][0] for k in members)
            columns.append(Column(members, x, width, y - MARGIN, above))
            x += width + MIDDLE
            above += y - MARGIN
    return columns, places
