"""Temporary memory for the compiled verbs; the verbs themselves are inline functions in verbs.pxd."""

import cython
from cython.cimports.libc.stdlib import malloc

BLOCK = cython.declare(int64_t, 8192)
"""Minimum count of numbers in a block of memory that a call gets when its own is full."""


class RefusedError(Exception):
    """The call is left to Python."""


REFUSED = RefusedError
"""The class, since an instance that is raised again keeps all tracebacks from Python 3.12 on."""


def _refuse():
    """Leave the call to Python."""
    raise REFUSED


def _more_room(maker, count):
    """Begin another block of memory (see `room`)."""
    size = max(count, BLOCK)
    block = cython.cast(cython.pointer(int64_t), malloc((size + 1) * cython.sizeof(int64_t)))
    if block == cython.NULL:
        raise MemoryError
    block[0] = cython.cast(int64_t, maker.blocks)
    maker.blocks = block
    maker.next = block + 1 + count
    maker.left = size - count
    return block + 1
