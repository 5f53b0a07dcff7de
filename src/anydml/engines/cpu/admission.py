"""Kernels that few programs need (a pattern of columns, an odd size): compiled where that pays, and only so many.

Each takes a second of compiling, megabytes of memory and 150 KB of disk for good, and patterns have no end. So work
that comes once and is not large is done by a kernel that serves all, and so is what comes when there are enough.
"""

from __future__ import annotations

MOST = 64
"""Special kernels that a process compiles, or takes from the disk, at most."""

LARGE = 64 << 20
"""Bytes that pay for a kernel at once: compiling it takes about as long as they take without it."""

REMEMBERED = 4096
"""Kernels that were asked for once, remembered at most."""

_admitted: set[str] = set()
_asked: set[str] = set()


class Admission:
    """What one plan may compile.

    Args:
        patient: True for work that may never come again: then a special kernel is there from the second time on.

    Attributes:
        postponed: whether a kernel was refused that would be there next time.
    """

    __slots__ = ("_patient", "_refused", "postponed")

    def __init__(self, patient: bool = False) -> None:
        self._patient = patient
        self._refused: set[str] = set()
        self.postponed = False

    def allows(self, kernel: str, moved: int) -> bool:
        """Whether a plan that moves so many bytes may use a special kernel; it is compiled then."""
        if kernel in _admitted:
            return True
        if len(_admitted) >= MOST or kernel in self._refused:
            return False
        if self._patient and moved < LARGE and kernel not in _asked:
            if len(_asked) >= REMEMBERED:
                _asked.clear()
            _asked.add(kernel)
            # A plan that asks again, for other moves or in another order, is not the next one.
            self._refused.add(kernel)
            self.postponed = True
            return False
        _asked.discard(kernel)
        _admitted.add(kernel)
        return True
