"""Coordinates of elements that are not zero, by a kernel that threads share where there are many elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.engines.cpu.compiler import NoCompilerError, import_kernels
from anydml.engines.cpu.kernel_call import units_per_claim
from anydml.engines.cpu.pool import ALL, POOL
from anydml.engines.cpu.sharing_point import pays
from anydml.memory.host import address_of
from anydml.memory.results import empty

Array = np.ndarray[Any, Any]

LEAST = 16 << 10
"""Elements for which the kernel pays."""

SIGNS = {("f", 2): 1 << 15, ("f", 4): 1 << 31, ("f", 8): 1 << 63, ("c", 8): 1 << 63 | 1 << 31}
"""Bits that make no zero a number: a float's sign, by kind and bytes of a type."""

EVERY = (1 << 64) - 1


def argwhere(x: Array, dtype: np.dtype[Any] = np.dtype(np.int64)) -> Array:  # noqa: B008
    """The coordinates of all elements that are not zero, a row each, in row-major order.

    Args:
        x: of any shape and dtype.
        dtype: of the coordinates: INT64 or UINT32.
    """
    if x.size >= LEAST and x.dtype.kind in "biufc":
        try:
            return _by_kernel(x, dtype)
        except NoCompilerError:
            pass
    # NumPy gives a view of columns: results are rows of their own.
    return np.argwhere(x).astype(dtype, "C")


def _by_kernel(x: Array, dtype: np.dtype[Any]) -> Array:
    import_kernels()
    from anydml.engines.cpu.kernels.nonzero import PIECE, nonzero_kernel

    kernel = nonzero_kernel()
    numbers, kept = _words(x)
    units = -(-x.size // PIECE)
    rows = np.empty(units + 1, np.uint64)
    moved = numbers.nbytes
    words = [units, units_per_claim(units, moved), 0, 1, x.ndim, address_of(numbers), x.size, numbers.itemsize, kept]
    table = np.array([*words, 0, address_of(rows) + 8, 0, dtype.itemsize, *x.shape], np.uint64)
    _run(kernel, table, moved, (numbers, rows))
    rows[0] = 0
    np.cumsum(rows, out=rows)
    shape = int(rows[-1]), x.ndim
    found = empty(shape, dtype)
    if found.size:
        table[[len(words), len(words) + 1, len(words) + 2]] = 1, address_of(rows), address_of(found)
        _run(kernel, table, moved, (numbers, rows, found))
    return found


def _words(x: Array) -> tuple[Array, int]:
    """What the kernel reads for an array: it, or flags of its elements, packed; and which bits of each count."""
    kind, size = x.dtype.kind, x.dtype.itemsize
    if x.flags.c_contiguous and x.dtype.isnative and size in (1, 2, 4, 8):
        if kind in "biu":
            return x, EVERY
        if sign := SIGNS.get((kind, size)):
            return x, EVERY & ~sign
    flags = np.empty(x.shape, np.bool_)
    # NaNs that signal are numbers like others.
    with np.errstate(invalid="ignore"):
        return np.not_equal(x, 0, out=flags), EVERY


def _run(kernel: Any, table: Array, moved: int, kept: object) -> None:
    if pays(moved):
        POOL.run(kernel, table, kept, moved)
    else:
        kernel.run(address_of(table), 0, ALL)
