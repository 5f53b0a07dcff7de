"""Work at which the threads of a pool wait for each other: whether all of them serve, however busy the machine is."""

import ctypes
import threading
import time
from types import SimpleNamespace

import numpy as np

from anydml.engines.cpu.block import STATE, WORKERS
from anydml.engines.cpu.pool import ROUND

Kernel = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 3)


def met(pool, threads, seconds):
    """Whether so many threads, the caller included, are at one piece of work at one time.

    Args:
        pool: whose they are; nobody else may use it.
        threads: how many there are to be; as many workers and one as it has.
        seconds: that they wait for each other at most.
    """
    present, complete = set(), threading.Event()
    turn = threading.Lock()
    patience = 0.01

    def kernel(table, counter, rounds):
        with turn:
            present.add(threading.get_ident())
            # One may have lost its patience, and be gone, before another came.
            if len(present) == threads and pool._crew.words[STATE] & WORKERS == threads - 1:
                complete.set()
        complete.wait(patience)
        return 0

    # The compiler is imported by it.
    from anydml.engines.cpu.kernels.driver import UNITS, UNITS_PER_CLAIM

    function = Kernel(kernel)
    compiled = SimpleNamespace(entry=ctypes.cast(function, ctypes.c_void_p).value)
    # Work of many units, for which sleepers are woken, and no claims: one dispatch calls every thread that comes.
    table = np.zeros(16, np.uint64)
    table[[UNITS, UNITS_PER_CLAIM]] = ROUND, 1
    dispatch = pool.bind(compiled, table, function)
    end = time.monotonic() + seconds
    while not complete.is_set() and time.monotonic() < end:
        present.clear()
        dispatch()
        patience = min(2 * patience, seconds)
    return complete.is_set()
