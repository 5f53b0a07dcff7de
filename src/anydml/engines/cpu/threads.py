"""How many threads share large work."""

from __future__ import annotations

import operator
import os
import sys
import warnings

from anydml.core import pool
from anydml.memory.control_groups import processors

MOST = 1024
"""More than any machine makes use of, and fewer than a system refuses."""


def available_cores() -> int:
    """The cores that this process may use: those it is bound to, or as many as its control groups give it time on."""
    if sys.platform == "linux":
        return min(len(os.sched_getaffinity(0)), processors() or MOST)
    return os.cpu_count() or 1


def _default_threads() -> int:
    text = os.environ.get("ANYDML_NUM_THREADS", "").strip()
    if text.isascii() and text.isdigit() and int(text) > 0:
        return min(int(text), MOST)
    if text:
        message = f"ANYDML_NUM_THREADS is {text!r}, which is no number of threads; using {available_cores()}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return available_cores()


def set_num_threads(threads: int) -> None:
    """Share large work between this many threads, the caller included.

    Where there is no compiled core, NumPy does all work in the caller's thread, whatever the number.

    Args:
        threads: 1 to 1024. The default is ANYDML_NUM_THREADS, or the cores that this process may use.

    Raises:
        TypeError: it is no integer.
        ValueError: it is less than 1, or more than 1024.

    Examples:
        >>> before = dml.get_num_threads()
        >>> dml.set_num_threads(1)
        >>> dml.get_num_threads()
        1
        >>> dml.set_num_threads(before)
    """
    try:
        number = operator.index(threads)
    except TypeError:
        raise TypeError(f"set_num_threads: {threads!r} is no number of threads, such as os.cpu_count()") from None
    if not 1 <= number <= MOST:
        raise ValueError(f"set_num_threads: {number} threads; there is at least the caller, and at most {MOST}")
    _CHOSEN[:] = [number]
    if pool is not None:
        pool.set_threads(number)


def get_num_threads() -> int:
    """Threads that large work is shared between, the caller included.

    Examples:
        >>> dml.get_num_threads() >= 1
        True
    """
    return _CHOSEN[0]


_CHOSEN = [_default_threads()]
if pool is not None:
    pool.set_threads(*_CHOSEN)
