"""The memory by which callers and workers agree: where its words are, and what this system offers to wait with."""

from __future__ import annotations

import ctypes
import sys

import numpy as np

from anydml.engines.cpu.waiting import IN_PYTHON, Waiting, address_of_function, find_waiting
from anydml.memory.host import address_of

OWNER = 0
COUNTER = 16
STATE, KERNEL, TABLE, CORE = 32, 33, 34, 35
SLEEPERS, LAST, STREAK = 48, 49, 50
WANTED, ALIVE, SPINS, FUTEX, SYSCALL, YIELD, CORE_FINDER, SET_CORES, GET_CORES = range(64, 73)
STYLE, WAIT, WAKE_ONE, WAKE_ALL, GET_THREAD, CLOCK = range(73, 79)
BOUND, BOUND_OFF, BOUND_OF, MOVED_TO = range(80, 84)
"""Numbers of 64-bit words, those that are written at once in lines of their own:

- OWNER: 1 while a caller shares its work.
- COUNTER: claims so far (see `kernels.driver.claim`).
- STATE: in its low half how many workers are at it, and `OPEN`, `AWAITED`; in its high half the number of the job. On
  its line, which a worker that begins has at hand, is what there is to do: KERNEL, TABLE.
- CORE: the core that the last owner ran on, plus one; 0 where it is not known.
- SLEEPERS: workers that sleep, or are about to. LAST: when work that found some ended, in nanoseconds.
  STREAK: how much of it came in a row, one soon after another, in bytes of a plain copy.
- WANTED, ALIVE: how many workers there should be, and how many there are.
- SPINS: how often a waiting thread looks before it sleeps.
- STYLE, WAIT, WAKE_ONE, WAKE_ALL, FUTEX, SYSCALL: what there is to wait with (see `waiting`).
- YIELD: the address of a function that lets another thread run.
- CLOCK: the address of a function that tells the time, 0 where there is none.
- CORE_FINDER, SET_CORES, GET_CORES, GET_THREAD: the address of a function that tells the core that it runs on, 0 where
  there is none, and the numbers of Linux's calls to say on which cores a thread may run, to ask, and to ask for the
  number of a thread.
- BOUND: the number of a worker that sleeps with one core left to it; `NOBODY`, `CHANGING`, or `MOVED` once an owner
  that had come to run on that very core has chosen another one. BOUND_OFF: the core that it keeps off. BOUND_OF: the
  set of cores that it may run on while awake. MOVED_TO: the set that the owner chose.
"""

NOBODY, CHANGING, MOVED = range(3)
"""Values of BOUND that are no number of a thread."""

WORDS = 96
LINE = 128
"""Bytes: cores fetch lines of 64 in pairs."""

OPEN, AWAITED, WORKERS, JOB = 1 << 16, 1 << 17, (1 << 16) - 1, 1 << 32
"""Parts of STATE: workers may begin, the owner sleeps until the last one leaves, how many are at it, one job."""

ROUND_BYTES = 64 << 20
"""Bytes, about, that a caller moves before it looks for signals."""

WAKING_BYTES = 3 << 19
"""Bytes of work, as a plain copy writes them, that is worth waking workers for: to wake one takes as long as to copy a
quarter of them from caches, and it comes later than that."""

LOOKS = 1000
"""How often a waiting thread looks before it sleeps: some tens of microseconds."""


def _yield() -> int:
    if sys.platform == "win32":
        return address_of_function(ctypes.WinDLL("kernel32"), "SwitchToThread")
    return address_of_function(ctypes.CDLL(None), "sched_yield")


class Block:
    """Such memory.

    Args:
        workers: how many there should be.
        in_python: workers sleep in Python, as where the system has nothing that compiled code can wait with.

    Attributes:
        address: of the first word.
        words: all of them.
    """

    def __init__(self, workers: int, in_python: bool = False) -> None:
        memory = np.zeros(WORDS + LINE // 8, np.uint64)
        skipped = -address_of(memory) % LINE // 8
        aligned = memory[skipped : skipped + WORDS]
        self.address = address_of(aligned)
        self.words = aligned.data
        self.words[WANTED] = workers
        self.words[SPINS] = LOOKS
        self.words[YIELD] = _yield()
        found = Waiting() if in_python else find_waiting()
        for word, value in (
            (STYLE, found.style),
            (WAIT, found.wait),
            (WAKE_ONE, found.wake_one),
            (WAKE_ALL, found.wake_all),
            (FUTEX, found.futex),
            (SET_CORES, found.set_cores),
            (GET_CORES, found.get_cores),
            (GET_THREAD, found.get_thread),
            (SYSCALL, found.syscall),
            (CORE_FINDER, found.core_finder),
            (CLOCK, found.clock),
        ):
            self.words[word] = value

    @property
    def is_in_python(self) -> bool:
        """Whether workers sleep in Python."""
        return self.words[STYLE] == IN_PYTHON
