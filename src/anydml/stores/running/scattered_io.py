"""Requests of several runs: bytes that are contiguous in a file and scattered in memory (preadv and pwritev)."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache

import numpy as np

from anydml.memory.host import address_of
from anydml.stores.formats.store import Array, Numbers

MAX_RUNS_AT_ONCE = 1024
"""Maximum number of runs of a request on Linux, macOS and the BSDs."""

LEFT_OUT = -1
"""Offset of a run of bytes that nobody needs."""

NEAR = 4 << 10
"""Maximum number of bytes of such a run: reading it takes less than another request."""

_NOBODYS = np.empty(NEAR, np.uint8)

_Call = Callable[[int, int, int, int], int]


def can_scatter() -> bool:
    """Whether the system has requests of several runs."""
    return _calls() is not None


def request(descriptor: int, buffer: Array, starts: Numbers, lengths: Numbers, offset: int, is_read: bool) -> int:
    """Read or write runs that are contiguous in a file, and return the number of bytes.

    Args:
        descriptor: the descriptor of the file.
        buffer: memory of the runs.
        starts: their offsets in the buffer, at most `MAX_RUNS_AT_ONCE`; in a read some may be `LEFT_OUT`.
        lengths: bytes of each.
        offset: offset of the first run in the file.
        is_read: whether to read rather than write.

    Raises:
        OSError: the request failed.
    """
    calls, are_left = _calls(), (starts == LEFT_OUT) & is_read
    are_sound = np.where(are_left, lengths <= NEAR, (starts >= 0) & (starts + lengths <= buffer.size))
    if calls is None or not 0 < starts.size <= MAX_RUNS_AT_ONCE or not are_sound.all():
        raise AssertionError("these runs are not a request")
    runs = np.empty((starts.size, 2), np.uintp)
    np.add(starts, address_of(buffer), out=runs[:, 0], casting="unsafe")
    runs[are_left, 0] = address_of(_NOBODYS)
    runs[:, 1] = lengths
    while (count := calls[is_read](descriptor, address_of(runs), starts.size, offset)) < 0:
        error = ctypes.get_errno()
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return count


@cache
def _calls() -> tuple[_Call, _Call] | None:
    """Return the system's pwritev and preadv."""
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    calls = []
    for name in ("pwritev", "preadv"):
        # Where file offsets may have 32 bits, the variant of another name takes 64.
        call = getattr(library, f"{name}64", None) or getattr(library, name, None)
        if call is None:
            return None
        call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
        call.restype = ctypes.c_ssize_t
        calls.append(call)
    return calls[0], calls[1]
