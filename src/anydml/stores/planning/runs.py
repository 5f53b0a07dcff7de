"""Runs of bytes that moves touch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.moves import Access, Move
from anydml.text import counted

MOST_RUNS = 1 << 24
"""Most runs that are listed; each takes about 30 bytes."""

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class ByteRun(NamedTuple):
    """Bytes of a file that are contiguous in a tensor, too.

    Attributes:
        path: the file.
        offset: of the first byte in the file.
        tensor: its name.
        start: offset of the first byte in the tensor, in C order.
        length: bytes.
    """

    path: Path
    offset: int
    tensor: str
    start: int
    length: int


def contiguous(end: Access, move: Move, gap: int) -> tuple[int, int, list[int]]:
    """The runs of bytes that one end of a move touches.

    Args:
        end: of the move.
        move: the move.
        gap: bytes between two runs along a dimension that are still one.

    Returns:
        The first byte, the length of a run, and the dimensions over which runs are repeated, the outermost first.
    """
    length, outer = move.element_size, list[int]()
    steps = [(abs(step), k) for k, (n, step) in enumerate(zip(move.sizes, end.strides, strict=True)) if step and n > 1]
    for step, k in sorted(steps):
        if not outer and step - length <= gap:
            length += (move.sizes[k] - 1) * step
        else:
            outer.append(k)
    low = end.offset + sum((n - 1) * s for n, s in zip(move.sizes, end.strides, strict=True) if s < 0 and n > 1)
    return low, length, outer[::-1]


def listed(offset: int, sizes: Sequence[int], strides: Sequence[int]) -> Offsets:
    """The offset of each coordinate, in C order."""
    found = np.array([offset], np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        found = (found[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return found


def check_few(count: int, what: str, instead: str) -> None:
    """Refuse to list more than `MOST_RUNS` runs.

    Raises:
        ModelError: there are more.
    """
    if count > MOST_RUNS:
        raise ModelError(f"plan_load: {what} are {counted(count, 'run')} of bytes; {MOST_RUNS} are the most: {instead}")
