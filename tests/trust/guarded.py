"""Memory between two pages that cannot be read: one byte too far, before or after, ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

PAGE = mmap.PAGESIZE
_PROT_NONE = 0


class Arena:
    """`pages` pages that can be written, with one that cannot on either side."""

    def __init__(self, pages: int) -> None:
        self._memory = mmap.mmap(-1, (pages + 2) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (start, start + (pages + 1) * PAGE):
            if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), _PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.size = pages * PAGE
        self._bytes = np.frombuffer(self._memory, np.uint8)[PAGE:-PAGE]

    def take(self, size: int, at_end: bool) -> np.ndarray:
        """The last `size` bytes, or the first; what was taken before is the same memory."""
        if not 0 < size <= self.size:
            raise ValueError(f"{size} bytes of an arena of {self.size}")
        return self._bytes[-size:] if at_end else self._bytes[:size]
