"""One block of memory for several arrays, so that a copy can be timed in the very memory of a case.

The same copy takes a third longer in some memory than in other: on machines with several memory controllers, and on
virtual ones, it depends on where the system finds the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PAGE, START = 4096, 16
"""Every array begins 16 bytes into a page, as large ones of NumPy's own do."""


class Block:
    """Memory for arrays that follow each other.

    Args:
        layouts: shape and dtype of each.
        least: bytes of the block at least.

    Attributes:
        bytes: all of it.
        arrays: zeros, touched.
    """

    def __init__(self, layouts: Sequence[tuple[tuple[int, ...], np.dtype[Any]]], least: int) -> None:
        sizes = [int(np.prod(shape)) * dtype.itemsize for shape, dtype in layouts]
        starts = [0, *accumulate(-(-size // PAGE) * PAGE for size in sizes)]
        raw = np.empty(max(starts[-1], least) + PAGE, np.uint8)
        raw[...] = 0
        self.bytes: Array = raw[(START - raw.ctypes.data) % PAGE :]
        self.arrays: list[Array] = [
            self.bytes[start : start + size].view(dtype).reshape(shape)
            for start, size, (shape, dtype) in zip(starts, sizes, layouts, strict=False)
        ]
