"""Axes of tensors that tensor-parallel ranks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.text import count_noun

MAX_RANKS = 4096
"""Maximum number of ranks of a placement."""

AxisIntervals = tuple[tuple[int, int], ...]
"""Intervals of an axis, in order: first element and size of each."""


class AxisSection(NamedTuple):
    """A section of an axis that all ranks share.

    Attributes:
        size: the size of the section, relative to the other sections.
        rank_size: the size of a rank's part of it, relative to the rank's parts of other sections.
        copies: number of consecutive ranks with the same part.
    """

    size: int
    rank_size: int
    copies: int


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that ranks share, and how.

    Attributes:
        axis: the axis of the tensor; None if every rank has the whole tensor.
        heads: number of heads along the axis, which are not divided; more ranks than heads replicate them. Several
            numbers if heads of several kinds are concatenated, such as q, k and v.
        parts: number of concatenated parts of equal size, such as gate and up; ranks share each part.
    """

    axis: int | None
    heads: int | tuple[int, ...] | None = None
    parts: int = 1

    def sections(self, ranks: int, name: str) -> list[AxisSection]:
        """Return the sections of the axis.

        Raises:
            ModelError: neither the number of heads nor the number of ranks divides the other.
        """
        if not isinstance(self.heads, tuple):
            copies = _copies(self.heads, ranks, name)
            return [AxisSection(1, 1, copies)] * self.parts
        return [AxisSection(head, head * _copies(head, ranks, name), _copies(head, ranks, name)) for head in self.heads]

    def cut(self, shape: Sequence[int], rank: int, ranks: int, name: str) -> AxisIntervals:
        """Return the intervals of the axis that a rank has.

        Raises:
            ModelError: ranks cannot share it evenly.
        """
        size = shape[self.axis or 0]
        sections = self.sections(ranks, name)
        total = sum(section.size for section in sections)
        heads = self.heads if isinstance(self.heads, int) else total
        if size % total or size % heads:
            noun = "heads" if self.heads else "parts"
            raise ModelError(
                f"{show(name)} has {count_noun(size, 'row')} along axis {self.axis}, which is "
                f"not a multiple of {heads} {noun}: correct {noun} in [[axes]] of the layout"
            )
        intervals, start = list[tuple[int, int]](), 0
        for section_size, _, copies in sections:
            section_size *= size // total  # noqa: PLW2901
            if section_size % (ranks // copies):
                raise ModelError(
                    f"{show(name)} has shape {[*shape]}, and its axis {self.axis} cannot be divided "
                    f"evenly among {count_noun(ranks // copies, 'rank')}: "
                    f"{near_divisors(section_size, ranks // copies)} could share it; or in a layout, slice it to a "
                    "multiple of the ranks, or give all of it to each by replicate = true"
                )
            rank_size = section_size // (ranks // copies)
            intervals.append((start + rank // copies * rank_size, rank_size))
            start += section_size
        return tuple(intervals)


def near_divisors(size: int, ranks: int) -> str:
    """Return the numbers next to `ranks` that divide a size, as a string such as "2 or 4"."""
    below = next(count for count in range(min(ranks, size), 0, -1) if size % count == 0)
    above = next((count for count in range(ranks, min(size, MAX_RANKS) + 1) if size % count == 0), None)
    return f"{below} or {above}" if above is not None else f"{below}"


def _copies(heads: int | None, ranks: int, name: str) -> int:
    """Return the number of consecutive ranks with the same heads.

    Raises:
        ModelError: neither the number of heads nor the number of ranks divides the other.
    """
    if heads is None or heads % ranks == 0:
        return 1
    if ranks % heads:
        raise ModelError(
            f"{show(name)} has {heads} heads, which {count_noun(ranks, 'rank')} cannot share evenly: "
            f"use a number of ranks that divides {heads} or is a multiple of it, or set heads in [[axes]] of a layout"
        )
    return ranks // heads


ROWS, COLUMNS, ALL = Axis(0), Axis(1), Axis(None)
