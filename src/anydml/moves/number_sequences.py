"""Constants that are sequences of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.moves.constant import Computed, Constant
from anydml.moves.open_numbers import pinned

PIECE = 1 << 13
"""Elements of a sequence that are computed at once."""


def sequence(start: Any, delta: Any, count: int) -> Constant:
    """Return ``start + k · delta`` for 0 ≤ k < count, native numbers in the elements' dtype."""
    dtype, count = start.dtype, pinned(count)
    return Computed((count,), dtype, lambda: numbers_of(start.number, delta.number, count).astype(dtype, copy=False))


def numbers_of(start: Any, delta: Any, count: int) -> np.ndarray[Any, Any]:
    """Compute ``start + k · delta``, 0 ≤ k < count: integers modulo 2ⁿ for n bits; others in 64 bits, rounded once."""
    dtype = start.dtype
    result = np.empty(count, dtype)
    # Block by block, so that intermediate results stay in the cache.
    many = min(count, PIECE)
    with np.errstate(all="ignore"):
        if dtype.kind not in "fc":
            numbers = np.arange(many, dtype=np.uint64).astype(dtype) * delta + start
            for first in range(0, count, PIECE):
                piece = result[first : first + PIECE]
                np.add(numbers[: piece.size], np.uint64(first).astype(dtype) * delta, out=piece)
            return result
        wide = np.dtype(np.complex128 if dtype.kind == "c" else np.float64).type
        counted, numbers = np.arange(many, dtype=np.float64), np.empty(many, wide)
        for first in range(0, count, PIECE):
            piece = result[first : first + PIECE]
            values = numbers[: piece.size]
            np.add(counted[: piece.size], first, out=values)
            values *= wide(delta)
            values += wide(start)
            piece[...] = values
    return result


def places(size: int) -> Constant:
    """Return n times the number n, which is out of range, then 0 to n − 1. Read backwards from L + n − 1: L − 1 … 0."""
    size = pinned(size)
    dtype = np.dtype(np.uint32 if size < 1 << 32 else np.uint64)
    return Computed(
        (2 * size,), dtype, lambda: np.concatenate([np.full(size, size, dtype), np.arange(size, dtype=dtype)])
    )
