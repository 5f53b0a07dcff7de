"""One pool of threads for all dispatches: work that is worth sharing is claimed chunk by chunk from one counter.

The caller works too, and looks for signals between rounds, so that Ctrl-C ends a long dispatch. A caller that finds the
pool busy does its work alone; nobody waits for anybody else's work.
"""

from __future__ import annotations

import operator
import os
import threading
import warnings
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from anydml.backends.base import Array
from anydml.backends.cpu.placement import Placement, current_core
from anydml.backends.memory import address_of

if TYPE_CHECKING:
    from anydml.backends.cpu.kernels.driver import Kernel

ROUND = 16
"""Chunks that the caller takes before it looks for signals."""

ALL = 1 << 62
MAX_THREADS = 1024
"""More than any machine makes use of, and fewer than a system refuses."""

LATE = 0.0002
"""Seconds that a worker may take longer than its caller before it may go on on the caller's core."""

ABANDONED = 1 << 40
"""A counter value past every chunk, even when it is multiplied by the units of one."""


def available_cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _default_threads() -> int:
    text = os.environ.get("ANYDML_NUM_THREADS", "").strip()
    if text.isascii() and text.isdigit() and int(text) > 0:
        return min(int(text), MAX_THREADS)
    if text:
        message = f"ANYDML_NUM_THREADS is {text!r}, which is no number of threads; using {available_cores()}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return available_cores()


class _Worker:
    """A daemon thread that does its jobs in order."""

    def __init__(self, number: int) -> None:
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        thread = threading.Thread(target=self._work, name=f"anydml-{number}", daemon=True)
        thread.start()
        self._placement = Placement(thread.native_id or 0)

    def start(self, job: Callable[[], object] | None, core: int = -1) -> None:
        """Do a job after those before it, not on this core; None ends the thread."""
        self._placement.avoid(core)
        self._jobs.put(job)

    def join(self) -> BaseException | None:
        """Wait for every job so far, come what may; an interruption is given back, to be raised when all is quiet."""
        interruption = None
        while True:
            try:
                done = threading.Event()
                self._jobs.put(done.set)
                if not done.wait(LATE):
                    # It may have to share its core with others, and the caller's is free now.
                    self._placement.avoid(-1)
                    done.wait()
                return interruption
            except BaseException as error:  # a signal: the jobs are still under way, so wait on
                interruption = error

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class Pool:
    """Threads that share kernels' work; `threads` counts the caller."""

    def __init__(self) -> None:
        self.threads = _default_threads()
        self.reset()

    def reset(self) -> None:
        """Forget all threads; those that are needed start again."""
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []

    def resize(self, threads: int) -> None:
        """Use this many threads from the next dispatch on."""
        with self._lock:
            self.threads = threads
            while len(self._workers) >= threads:
                self._workers.pop().start(None)

    def run(self, kernel: Kernel, table: Array, kept: object = None) -> None:
        """Do all units of a table, with every thread that is free.

        Args:
            kernel: what does them.
            table: its table.
            kept: what the table's addresses point to; every thread at work keeps it alive, come what may.
        """
        counter = np.zeros(1, np.uint64)
        mine = self.threads > 1 and self._lock.acquire(blocking=False)
        workers: list[_Worker] = []
        try:
            try:
                if mine:
                    workers = self._enlist()
                    core = current_core()
                    for worker in workers:
                        worker.start(partial(_work, kernel, table, counter, kept), core)
                while kernel(address_of(table), address_of(counter), ROUND):
                    pass
            except BaseException:
                counter[0] = ABANDONED
                raise
            finally:
                interruptions = [worker.join() for worker in workers]
        finally:
            if mine:
                self._lock.release()
        for interruption in filter(None, interruptions):
            raise interruption

    def _enlist(self) -> list[_Worker]:
        try:
            while len(self._workers) < self.threads - 1:
                self._workers.append(_Worker(len(self._workers) + 1))
        except RuntimeError:
            # The system gives no more threads: go on with those that there are.
            self.threads = len(self._workers) + 1
        return self._workers


def _work(kernel: Kernel, table: Array, counter: Array, kept: object) -> None:
    kernel(address_of(table), address_of(counter), ALL)


POOL = Pool()


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: the child starts with new ones.
    os.register_at_fork(after_in_child=POOL.reset)


def set_num_threads(threads: int) -> None:
    """Share large work between this many threads, the caller included.

    Args:
        threads: 1 to 1024. The default is ANYDML_NUM_THREADS, or the cores that this process may use.

    Raises:
        TypeError: it is no integer.
        ValueError: it is less than 1, or more than 1024.
    """
    count = operator.index(threads)
    if not 1 <= count <= MAX_THREADS:
        raise ValueError(f"set_num_threads: {count} threads; there is at least the caller, and at most {MAX_THREADS}")
    POOL.resize(count)


def get_num_threads() -> int:
    """Threads that large work is shared between, the caller included."""
    return POOL.threads
