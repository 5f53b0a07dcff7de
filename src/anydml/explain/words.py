"""An explanation in words, for a terminal."""

from __future__ import annotations

from anydml.explain.section import Section
from anydml.text import printable

MOST_LINES = 200
"""Of tensors, of moves, and of what an engine says."""

NOTATION = (
    "#1[8·c0 + 4·c1] is what begins at byte 8·c0 + 4·c1 of #1, and index1[8·c0] the integer there; "
    "c0, c1, … count the box before it, such as 2×3. An index outside its axis takes the nearest end; where “or skip” "
    "follows, nothing is moved, and where “or refuse” does, it raises."
)
"""What moves are written in."""


def words(section: Section) -> str:
    """Tensors, moves, and what runs; names of files cannot command a terminal."""
    tensors = [f"  #{k} {tensor}" for k, tensor in enumerate(section.tensors)]
    moves = [f"  {move}" for move in section.moves]
    parts = [_first(tensors, "tensors"), _first(moves, "moves"), _first(section.compiled.splitlines(), "lines")]
    return "\n".join([printable(section.title), *(printable(line) for part in parts for line in part)])


def _first(lines: list[str], what: str) -> list[str]:
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"  and {more} more {what}"]
