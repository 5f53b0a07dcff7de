"""Explanations as text for a terminal, and the notation of moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.explain.section import Section
from anydml.text import escape_controls

MAX_LINES = 200
"""Lines of tensors, of moves, and of a compiled program."""

MOVES = (
    "How to read a move: “2×3 of 4 B: #1[12·c0 + 4·c1] = …” writes 4 bytes for each c0 from 0 to 1 and c1 from 0 to 2, "
    "at byte 12·c0 + 4·c1 of tensor #1."
)
INDICES = (
    " index1[8·c0] is the integer at byte 8·c0 of tensor #1. An index outside its axis takes the nearest end; after "
    "“or skip” nothing is moved for it, and after “or error” it raises an error."
)


def notation(sections: Sequence[Section]) -> str:
    """Explain the notation of moves, as far as some sections use it."""
    has_indices = any(move.has_lookups for section in sections for move in section.moves)
    return MOVES + INDICES if has_indices else MOVES


def as_text(section: Section) -> str:
    """Return the tensors, moves and compiled program of a section, without control characters."""
    tensors = [f"  #{k} {tensor}" for k, tensor in enumerate(section.tensors)]
    moves = [f"  {move}" for move in section.moves]
    parts = [_first(tensors, "tensors"), _first(moves, "moves"), _first(section.compiled.splitlines(), "lines")]
    return "\n".join([escape_controls(section.title), *(escape_controls(line) for part in parts for line in part)])


def as_document(sections: Sequence[Section], notes: Sequence[str]) -> dict[str, Any]:
    """Return an explanation for JSON: `sections`, each with `title`, `tensors`, `moves` and `compiled`; and `notes`."""
    documents = [
        {
            "title": section.title,
            "tensors": [str(tensor) for tensor in section.tensors],
            "moves": [str(move) for move in section.moves],
            "compiled": section.compiled.splitlines(),
        }
        for section in sections
    ]
    return {"sections": documents, "notes": [*notes]}


def _first(lines: list[str], noun: str) -> list[str]:
    hidden = len(lines) - MAX_LINES
    return lines if hidden <= 0 else [*lines[:MAX_LINES], f"  and {hidden} more {noun}"]
