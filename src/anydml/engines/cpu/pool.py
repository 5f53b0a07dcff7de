"""One pool of threads for all dispatches: work that is worth sharing is claimed chunk by chunk from one counter.

The caller works too. At every step of Python nothing is under way: what is shared begins and ends within one call of
compiled code (see `kernels.sharing`), which does a round and is called again. So a signal, Ctrl-C, may raise anywhere
between them. A caller that finds the pool busy does its work alone; nobody waits for anybody else's work.
"""

from __future__ import annotations

import atexit
import operator
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from anydml.core import pool as compiled_pool
from anydml.engines.cpu.block import ALIVE, ROUND_BYTES, WAKING_BYTES, WANTED
from anydml.engines.cpu.crew import Code, Crew
from anydml.engines.protocol import Array
from anydml.memory.host import address_of

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.loading import Kernel

ROUND = 16
"""Claims that a caller makes before it looks for signals, where nobody says how large they are."""

ALL = 1 << 62
MAX_THREADS = 1024
"""More than any machine makes use of, and fewer than a system refuses."""

END = 2.0
"""Seconds that the end of the process waits for a worker at most."""


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


def rounds_of(claim_bytes: int) -> int:
    """How many claims of so many bytes a caller makes before it looks for signals; of 0 where that is not known."""
    return max(1, ROUND_BYTES // claim_bytes) if claim_bytes else ROUND


class Pool:
    """Threads that share kernels' work.

    Args:
        in_python: let them sleep in Python even where compiled code can wait.

    Attributes:
        place: where compiled code finds the address of the crew's words.
    """

    def __init__(self, in_python: bool = False) -> None:
        self._in_python = in_python
        self._code: Code | None = None
        self._crew = self._before = Crew(_default_threads() - 1, in_python)
        self.place = np.array([self._crew.address], np.uint64)

    @property
    def threads(self) -> int:
        """How many there are to be, the caller included."""
        return self._crew.words[WANTED] + 1

    @property
    def workers(self) -> int:
        """How many there are, without the caller."""
        return self._crew.words[ALIVE]

    def reset(self) -> None:
        """Forget all workers; those that are needed start again."""
        # Wherever a signal ends this, the crew that compiled code finds is still there.
        self.place[0] = self._crew.address
        self._before = self._crew
        self._crew = Crew(self._crew.words[WANTED], self._in_python)
        self.place[0] = self._crew.address

    def resize(self, threads: int) -> None:
        """Use this many threads from the next round on."""
        crew = self._crew
        crew.words[WANTED] = threads - 1
        if self._code is not None:
            self._code.rouse(crew.address)
        if crew.wakes_in_python:
            crew.ring()

    def end(self) -> None:
        """End all workers, and wait for them: the code that they run must not be freed under them."""
        crew = self._crew
        crew.ended = True
        self.resize(1)
        for worker in tuple(crew.workers):
            if worker.ident:
                worker.join(END)

    def prepare(self) -> Code:
        """Compile what sharing takes.

        Raises:
            NoCompilerError: it cannot be compiled.
        """
        if self._code is None:
            from anydml.engines.cpu.kernels import sharing

            self._code = Code(sharing.share().run, sharing.serve().run, sharing.rouse().run)
        return self._code

    def bind(
        self, kernel: Kernel, table: Array, kept: object = None, claim_bytes: int = 0, effort: int = WAKING_BYTES
    ) -> Callable[[], None]:
        """What does all units of a table, with every thread that is free.

        Args:
            kernel: what does them.
            table: its table.
            kept: what the table's addresses point to, kept alive.
            claim_bytes: bytes that one claim moves, 0 where that is not known.
            effort: bytes that a plain copy writes in the time that one thread takes for all units, about.
        """
        work, address = self.driver(kernel, claim_bytes, effort), address_of(table)

        def dispatch() -> None:
            work(address)

        dispatch.kept = (kernel, table, kept)  # type: ignore[attr-defined]
        return dispatch

    def driver(self, kernel: Kernel, claim_bytes: int = 0, effort: int = WAKING_BYTES) -> Callable[[int], None]:
        """The same for any table, given its address; the caller keeps the kernel, the table, and what it points to.

        Args:
            kernel: what does the units.
            claim_bytes: as in `bind`.
            effort: likewise.
        """
        code = self.prepare()
        share, entry = code.share, kernel.entry
        rounds = rounds_of(claim_bytes)

        def work(table: int) -> None:
            following = 1
            while following & 1:
                # A fork in a signal handler leaves its child with other workers.
                crew = self._crew
                words = crew.words
                if words[ALIVE] < words[WANTED]:
                    crew.start(code)
                if crew.wakes_in_python:
                    crew.ring()
                following = share(crew.address, entry, table, following >> 1, rounds, effort)

        return work

    def run(self, kernel: Kernel, table: Array, kept: object = None, effort: int = WAKING_BYTES) -> None:
        """Do all units of a table once (see `bind`)."""
        self.bind(kernel, table, kept, effort=effort)()


POOL = Pool()
if compiled_pool is not None:
    compiled_pool.set_threads(POOL.threads)


def _reset() -> None:
    POOL.reset()


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: the child starts with new ones.
    os.register_at_fork(after_in_child=_reset)
atexit.register(POOL.end)


def set_num_threads(threads: int) -> None:
    """Share large work between this many threads, the caller included.

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
    if not 1 <= number <= MAX_THREADS:
        raise ValueError(f"set_num_threads: {number} threads; there is at least the caller, and at most {MAX_THREADS}")
    _resize(number)


def _resize(threads: int) -> None:
    POOL.resize(threads)
    if compiled_pool is not None:
        compiled_pool.set_threads(threads)


def get_num_threads() -> int:
    """Threads that large work is shared between, the caller included.

    Examples:
        >>> dml.get_num_threads() >= 1
        True
    """
    return POOL.threads
