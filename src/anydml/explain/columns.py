"""The columns of a picture: inputs and constants on the left, scratch in the middle, outputs on the right.

Narrow pages stack the columns: the style sheet shifts each by its own ``--x`` and ``--y``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anydml.explain.section import Tensor

MARGIN = 16
"""Pixels around and between tensors."""

MIDDLE = 150
"""Pixels between columns, where the arrows are."""

_ROLES = (("input", "constant"), ("scratch",), ("output",))


@dataclass(frozen=True)
class Column:
    """Tensors in one column.

    Attributes:
        members: numbers of the tensors.
        x: left edge.
        width: width of the widest tensor.
        bottom: the first pixel below the column.
        above: total height of the previous columns, when columns are stacked.
    """

    members: tuple[int, ...]
    x: int
    width: int
    bottom: int
    above: int

    def group(self, parts: Sequence[str]) -> list[str]:
        """Return a group of SVG elements that shifts with this column."""
        return [f'<g class="part" style="--x:{MARGIN - self.x}px;--y:{self.above}px">', *parts, "</g>"]


def arrange(
    tensors: Sequence[Tensor], sizes: Mapping[int, tuple[int, int]]
) -> tuple[list[Column], dict[int, tuple[int, int]]]:
    """Arrange tensors of given widths and heights; return the columns, and each tensor's top left corner."""
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
