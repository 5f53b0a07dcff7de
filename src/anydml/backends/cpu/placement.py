"""Workers stay off the core of the caller that woke them.

A system may wake a thread on the very core it was woken from. There it waits for milliseconds until its caller is done,
who has then worked alone. So each worker may run on all its cores but that one (Linux; elsewhere the system decides).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable


def _core_finder() -> Callable[[], int] | None:
    if sys.platform != "linux":
        return None
    try:
        find: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None
    return find


_find_core = _core_finder()


def current_core() -> int:
    """The core that the calling thread runs on; -1 where the system does not tell."""
    return _find_core() if _find_core else -1


class Placement:
    """Where one thread may run.

    Args:
        thread: its number in the system.
    """

    __slots__ = ("_allowed", "_avoided", "_set", "_thread")

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._avoided = -1
        self._allowed: set[int] = set()
        self._set: set[int] = set()

    def avoid(self, core: int) -> None:
        """Keep the thread off a core (−1: off none), and off no other any longer; stay where there is no other."""
        if core == self._avoided or sys.platform != "linux":
            return
        self._avoided = core
        try:
            now = os.sched_getaffinity(self._thread)
            if now != self._set:
                # The first time, or somebody else has changed it since: that counts.
                self._allowed = now
            self._set = (self._allowed - {core}) or self._allowed
            if self._set != now:
                os.sched_setaffinity(self._thread, self._set)
        except OSError:
            # The thread has ended, or the system forbids it: it runs where the system likes.
            pass
