"""Blocks of chunked arrays: boxes of the outputs, and how they were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anydml.stores.regions import Box


class GridBlock(NamedTuple):
    """A box of an output."""

    output: int
    box: Box


def block_of(ranks: Sequence[int], row: Sequence[int]) -> GridBlock:
    """A block of its output's number, and the two ends of its box along each axis."""
    ends = row[1 : 1 + 2 * ranks[row[0]]]
    return GridBlock(row[0], tuple(zip(ends[::2], ends[1::2], strict=True)))


@dataclass(frozen=True)
class Choice:
    """How an output is cut.

    Attributes:
        block: sizes of a block.
        are_kept: whether chunks that blocks share are decoded once, into a file without a name.
        seconds: a byte, about.
    """

    block: tuple[int, ...]
    are_kept: bool
    seconds: float
