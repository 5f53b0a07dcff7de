"""A thread that loads kernels while NumPy works: small work never waits for a compiler."""

from __future__ import annotations

import _thread
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable

from anydml.engines.cpu import compiler

MOST_PENDING = 256
"""Plans that wait for their kernels, at most."""


class Loader:
    """A thread that does what takes the compiler, one thing after the other, while there is anything to do."""

    def __init__(self) -> None:
        self._pending: deque[Callable[[], object]] = deque(maxlen=MOST_PENDING)
        self._turn = _thread.allocate_lock()

    def ask(self, work: Callable[[], object]) -> None:
        """Have something done soon. What it raises is nobody's business: NumPy does the work as before."""
        self._pending.append(work)
        if self._turn.acquire(blocking=False):
            try:
                _thread.start_new_thread(self._run, (self._turn,))
            except RuntimeError:
                # The system gives no more threads, or the interpreter is about to end.
                self._turn.release()

    def _run(self, turn: _thread.LockType) -> None:
        while True:
            try:
                while self._pending:
                    work = self._pending.popleft()
                    with contextlib.suppress(compiler.NoCompilerError, MemoryError):
                        work()
            finally:
                turn.release()
            # Somebody may have asked after the last look, and seen the turn taken.
            if not self._pending or not turn.acquire(blocking=False):
                return

    def settle(self, seconds: float) -> bool:
        """Wait until nothing is left to do, for tests; whether that came in time."""
        end = time.monotonic() + seconds
        while self._pending or self._turn.locked():
            if time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True

    def forget(self) -> None:
        """Start anew, where the thread is another process's."""
        self._pending.clear()
        self._turn = _thread.allocate_lock()


LOADER = Loader()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LOADER.forget)
