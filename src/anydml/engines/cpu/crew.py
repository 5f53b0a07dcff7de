"""The workers of one process: how they start, sleep in Python where they have to, and end."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import NamedTuple

from anydml.engines.cpu.block import ALIVE, WANTED, Block

AGAIN = 0.05
"""Seconds after which missing workers are started again."""


class Code(NamedTuple):
    """The compiled functions of `kernels.sharing`."""

    share: Callable[[int, int, int, int, int, int], int]
    serve: Callable[[int, int], int]
    rouse: Callable[[int], int]


class Crew:
    """The workers of one process, and the memory that they and their callers agree by.

    Args:
        workers: how many there should be.
        in_python: they sleep in Python. It takes longer to wake them.
    """

    def __init__(self, workers: int, in_python: bool) -> None:
        self.block = Block(workers, in_python)
        self.address = self.block.address
        self.words = self.block.words
        self.wakes_in_python = self.block.is_in_python
        self.bell: SimpleQueue[None] = SimpleQueue()
        self.workers: set[threading.Thread] = set()
        self.ended = False
        self._asked = 0
        self._again = 0.0

    def ring(self) -> None:
        """Wake workers that sleep in Python, and those that are about to: each ring counts, whoever sleeps when."""
        for _ in range(self.words[ALIVE] - self.bell.qsize()):
            self.bell.put(None)

    def start(self, code: Code) -> None:
        """Start workers that are missing, unless that was done a moment ago."""
        wanted, now = self.words[WANTED], time.monotonic()
        if self.ended or (wanted == self._asked and now < self._again):
            return
        self._asked, self._again = wanted, now + AGAIN
        try:
            # Not `Thread.start` at once: a signal while it waits would keep its locks for ever. Only the main thread
            # is interrupted, so another one starts them.
            _thread.start_new_thread(self._start, (code, wanted))
        except RuntimeError:
            self._refuse()

    def _start(self, code: Code, wanted: int) -> None:
        self.workers -= {worker for worker in tuple(self.workers) if worker.ident and not worker.is_alive()}
        taken = {worker.name for worker in tuple(self.workers)}
        names = (name for number in count(1) if (name := f"anydml-{number}") not in taken)
        for _ in range(len(taken), wanted):
            worker = threading.Thread(target=self._work, args=(code,), name=next(names), daemon=True)
            self.workers.add(worker)
            try:
                worker.start()
            except RuntimeError:
                self.workers.discard(worker)
                self._refuse()
                return

    def _refuse(self) -> None:
        """The system gives no more: go on with those that were started, those that do not serve yet included."""
        self.words[WANTED] = min(self.words[WANTED], len(self.workers))

    def _work(self, code: Code) -> None:
        from anydml.engines.cpu.kernels.sharing import BEGINS, ENDS, WAKES

        stage = BEGINS
        try:
            while code.serve(self.address, stage):
                stage = ENDS
                self.bell.get()
                stage = WAKES
        finally:
            if stage == ENDS:
                code.serve(self.address, ENDS)
