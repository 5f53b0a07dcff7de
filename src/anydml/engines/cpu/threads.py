"""The number of threads that share large work."""

from __future__ import annotations

import os
import sys
import warnings

from anydml.core import pool
from anydml.fields import integer
from anydml.memory.limits import processors

MAX_THREADS = 1024
"""Maximum number of threads: more than any machine benefits from, but few enough for any system to start."""


def available_cores() -> int:
    """Return the number of cores that this process may use, by its affinity and its control groups."""
    if sys.platform == "linux":
        return min(len(os.sched_getaffinity(0)), processors() or MAX_THREADS)
    return os.cpu_count() or 1


def _default_threads() -> int:
    text = os.environ.get("ANYDML_NUM_THREADS", "").strip()
    if text.isascii() and text.isdigit() and int(text) > 0:
        return min(int(text), MAX_THREADS)
    if text:
        message = f"ANYDML_NUM_THREADS is {text!r}, which is not a number of threads; using {available_cores()}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return available_cores()


def set_num_threads(threads: int) -> None:
    """Set the number of threads that share large work, the caller's included.

    Without the compiled core, NumPy does all work in the caller's thread.

    Args:
        threads: 1 to 1024. The default is ANYDML_NUM_THREADS, or the cores that this process may use.

    Raises:
        TypeError: `threads` is not an integer.
        ValueError: `threads` is less than 1, or more than 1024.

    Examples:
        >>> before = dml.get_num_threads()
        >>> dml.set_num_threads(1)
        >>> dml.get_num_threads()
        1
        >>> dml.set_num_threads(before)
    """
    thread_count = integer("set_num_threads", "threads", threads)
    if not 1 <= thread_count <= MAX_THREADS:
        raise ValueError(f"set_num_threads: threads is {thread_count}, but must be 1 to {MAX_THREADS}")
    _CHOSEN[:] = [thread_count]
    if pool is not None:
        pool.set_threads(thread_count)


def get_num_threads() -> int:
    """Return the number of threads that share large work, the caller's included.

    Examples:
        >>> dml.get_num_threads() >= 1
        True
    """
    return _CHOSEN[0]


_CHOSEN = [_default_threads()]
if pool is not None:
    pool.set_threads(*_CHOSEN)
