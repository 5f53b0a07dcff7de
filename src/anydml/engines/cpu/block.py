"""The memory by which callers and workers agree: where its words are, and what this system offers to wait with."""

from __future__ import annotations

import ctypes
import platform
import sys

import numpy as np

from anydml.memory.host import address_of

OWNER, KERNEL, TABLE, CORE = 0, 1, 2, 3
COUNTER = 16
STATE = 32
SLEEPERS = 48
WANTED, ALIVE, SPINS, FUTEX, SYSCALL, YIELD, CORE_FINDER, SET_CORES, GET_CORES = range(64, 73)
"""Numbers of 64-bit words, those that are written at once in lines of their own:

- OWNER: 1 while a caller shares its work; what that is, is in KERNEL, TABLE and COUNTER (claims so far).
- CORE: the core that the last owner ran on, plus one; 0 where it is not known.
- STATE: in its low half how many workers are at it, and `OPEN`, `AWAITED`; in its high half the number of the job.
- SLEEPERS: workers that sleep, or are about to.
- WANTED, ALIVE: how many workers there should be, and how many there are.
- SPINS: how often a waiting thread looks before it sleeps.
- FUTEX, SYSCALL: the number of Linux's call to wait with, 0 elsewhere, and the address of the function to make it.
- YIELD: the address of a function that lets another thread run.
- CORE_FINDER, SET_CORES, GET_CORES: the address of a function that tells the core that it runs on, 0 where there is
  none, and the numbers of Linux's calls to say on which cores a thread may run, and to ask.
"""

WORDS = 80
LINE = 128
"""Bytes: cores fetch lines of 64 in pairs."""

OPEN, AWAITED, WORKERS, JOB = 1 << 16, 1 << 17, (1 << 16) - 1, 1 << 32
"""Parts of STATE: workers may begin, the owner sleeps until the last one leaves, how many are at it, one job."""

LOOKS = 1000
"""How often a waiting thread looks before it sleeps: some tens of microseconds."""

_NUMBERS = {
    "x86_64": (202, 203, 204),
    **dict.fromkeys(("aarch64", "riscv64"), (98, 122, 123)),
    "ppc64le": (221, 222, 223),
}
"""Linux's numbers of futex, sched_setaffinity and sched_getaffinity, by machine."""


def _yield() -> int:
    if sys.platform == "win32":
        return _address(ctypes.WinDLL("kernel32"), "SwitchToThread")
    return _address(ctypes.CDLL(None), "sched_yield")


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


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
        numbers = _NUMBERS.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
        if numbers and not in_python:
            library = ctypes.CDLL(None)
            for word, number in zip((FUTEX, SET_CORES, GET_CORES), numbers, strict=True):
                self.words[word] = number
            self.words[SYSCALL] = _address(library, "syscall")
            self.words[CORE_FINDER] = _address(library, "sched_getcpu") if hasattr(library, "sched_getcpu") else 0
