"""Constants that are sequences of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.moves.constant import Constant, LazyConstant
from anydml.moves.open_numbers import pinned

BLOCK = 1 << 13
"""Elements of a sequence that are computed at once."""


def sequence(start: Any, delta: Any, count: int) -> Constant:
    """Return ``start + k · delta`` for 0 ≤ k < count, native numbers in the elements' dtype."""
    dtype, count = start.dtype, pinned(count)
    return LazyConstant(
        (count,), dtype, lambda: sequence_numbers(start.number, delta.number, count).astype(dtype, copy=False)
    )


def number_kind(dtype: np.dtype[Any]) -> str:
    """Return ``"i"``, ``"f"`` or ``"c"`` for integers, floats and complex numbers, also ml_dtypes'; or ``""``."""
    if dtype.isbuiltin == 2:
        return "i" if "int" in dtype.name else "c" if "complex" in dtype.name else "f"
    return {"i": "i", "u": "i", "f": "f", "c": "c"}.get(dtype.kind, "")


def sequence_numbers(start: Any, delta: Any, count: int) -> np.ndarray[Any, Any]:
    """Compute ``start + k · delta``, 0 ≤ k < count: integers modulo 2ⁿ for n bits; others in 64 bits, rounded once."""
    dtype, number_class = start.dtype, number_kind(start.dtype)
    result = np.empty(count, dtype)
    # Block by block, so that intermediate results stay in the cache.
    block_size = min(count, BLOCK)
    with np.errstate(all="ignore"):
        if number_class == "i" and dtype.isbuiltin == 2:
            # ml_dtypes' integers have no scalar type in NumPy, and wrap when numbers are converted to them.
            for first in range(0, count, BLOCK):
                piece = result[first : first + BLOCK]
                piece[...] = np.arange(first, first + piece.size) * int(delta) + int(start)
            return result
        if number_class == "i":
            numbers = np.arange(block_size, dtype=np.uint64).astype(dtype) * delta + start
            for first in range(0, count, BLOCK):
                piece = result[first : first + BLOCK]
                np.add(numbers[: piece.size], np.uint64(first).astype(dtype) * delta, out=piece)
            return result
        wide_type = np.dtype(np.complex128 if number_class == "c" else np.float64).type
        block_numbers, numbers = np.arange(block_size, dtype=np.float64), np.empty(block_size, wide_type)
        for first in range(0, count, BLOCK):
            piece = result[first : first + BLOCK]
            values = numbers[: piece.size]
            np.add(block_numbers[: piece.size], first, out=values)
            values *= wide_type(delta)
            values += wide_type(start)
            piece[...] = values
    return result


def reversal_table(size: int) -> Constant:
    """Return n times the number n, which is out of range, then 0 to n − 1. Read backwards from L + n − 1: L − 1 … 0."""
    size = pinned(size)
    dtype = np.dtype(np.uint32 if size < 1 << 32 else np.uint64)
    return LazyConstant(
        (2 * size,), dtype, lambda: np.concatenate([np.full(size, size, dtype), np.arange(size, dtype=dtype)])
    )
