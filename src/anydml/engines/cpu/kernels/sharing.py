"""How one thread's work is shared with others: all of it in compiled code, without the GIL and without locks.

A caller takes the block by compare-and-swap, publishes its kernel and table, and works. Then it closes the job, so that
no worker begins any more, and waits for those that have begun: when `share` returns, nothing is under way. It never
waits for a worker that has not begun, and never sleeps while there is work left.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from anydml.engines.cpu.block import (
    ALIVE,
    AWAITED,
    COUNTER,
    JOB,
    KERNEL,
    LAST,
    OPEN,
    OWNER,
    SLEEPERS,
    SPINS,
    STATE,
    STYLE,
    TABLE,
    WANTED,
    WORKERS,
    YIELD,
)
from anydml.engines.cpu.kernels.asleep import (
    at,
    is_worth_waking,
    leave_core_free,
    note_core,
    now,
    sleep,
    sleep_elsewhere,
    wake,
)
from anydml.engines.cpu.kernels.atomics import (
    atomic_add,
    atomic_and,
    atomic_load,
    atomic_or,
    atomic_store,
    atomic_swap,
    call_kernel,
    call_plain,
    pause,
    replace,
)
from anydml.engines.cpu.kernels.driver import FROM_END, HALF, UNITS, UNITS_PER_CLAIM, claimed, code_of, compiled, word
from anydml.engines.cpu.kernels.ir import load, scratch, store
from anydml.engines.cpu.kernels.language import helper, uint64
from anydml.engines.cpu.waiting import IN_PYTHON

CODE = code_of("atomics.py", "asleep.py", "../block.py", "../waiting.py")
"""Part of the names of what is compiled here."""

CLOSED = (1 << HALF) - 1
"""A counter value past every claim."""

ALL = 1 << 62
MOST_WOKEN = 2
"""Sleepers that one thread wakes: each of them wakes as many."""

PATIENCE = 4
"""How many times as long as a worker looks for work its caller looks whether the last claim is done: a large one takes
longer, and a caller that sleeps may be woken on the core of its worker, which then goes on after it."""

MORE = 1
"""In what `shared` returns: there are claims left. Above that bit stands the counter's value."""


@helper
def quiet(block, state):
    """Wait until no worker is at a job that was closed, given the state then."""
    looks = uint64(0)
    while state & uint64(WORKERS) != uint64(0):
        if looks < load(at(block, SPINS)) * uint64(PATIENCE):
            looks += uint64(1)
            pause()
        elif load(at(block, STYLE)) == uint64(IN_PYTHON):
            call_plain(load(at(block, YIELD)))
        elif state & uint64(AWAITED) == uint64(0):
            atomic_or(at(block, STATE), uint64(AWAITED))
        else:
            sleep(block, at(block, STATE), state & uint64(JOB - 1))
        state = atomic_load(at(block, STATE))
    if state & uint64(AWAITED) != uint64(0):
        atomic_and(at(block, STATE), ~uint64(AWAITED))


@helper
def shared(block, kernel, table, begin, rounds, effort):
    """Do claims of a table that a counter's value leaves, with every worker; rounds of the caller's own at most.

    Workers that sleep are woken where the effort, in bytes of a plain copy, is worth it.
    """
    units, step = word(table, UNITS), word(table, UNITS_PER_CLAIM)
    if replace(at(block, OWNER), uint64(0), uint64(1)):
        # Plain stores: the change of the state publishes them, at the cost of its own line and the counter's.
        store(at(block, COUNTER), begin)
        store(at(block, KERNEL), kernel)
        store(at(block, TABLE), table)
        note_core(block)
        atomic_add(at(block, STATE), uint64(JOB | OPEN))
        sleepers = atomic_load(at(block, SLEEPERS))
        if sleepers != uint64(0) and is_worth_waking(block, effort):
            leave_core_free(block)
            wake(block, at(block, STATE) + uint64(4), min(sleepers, uint64(MOST_WOKEN)))
        following = uint64(CLOSED)
        if call_kernel(kernel, table, at(block, COUNTER), rounds) != uint64(0):
            following = atomic_swap(at(block, COUNTER), uint64(CLOSED))
        quiet(block, atomic_and(at(block, STATE), ~uint64(OPEN)) & ~uint64(OPEN))
        if sleepers != uint64(0):
            store(at(block, LAST), now(block))
        atomic_store(at(block, OWNER), uint64(0))
    else:
        # Somebody else's work is being shared: do this alone.
        counter = scratch(64)
        store(counter, begin)
        call_kernel(kernel, table, counter, rounds)
        following = load(counter)
    if claimed(following) * step < units:
        return (following << uint64(1)) | uint64(MORE)
    return uint64(0)


@cache
def share() -> Any:
    """`shared` for Python."""

    def share(block, kernel, table, begin, rounds, effort):
        return shared(block, kernel, table, begin, rounds, effort)

    return compiled(share, CODE)


BEGINS, WAKES, ENDS = range(3)
"""What a worker that calls `serve` does: begins, goes on after it has slept, or is at its end."""


@cache
def serve() -> Any:
    """Take part in jobs until there are more workers than are wanted, or until it is time to sleep in Python.

    It returns 1 where the worker is to sleep and call again, 0 where it is to end.
    """

    def serve(block, stage):
        if stage == uint64(BEGINS):
            while True:
                alive = atomic_load(at(block, ALIVE))
                if alive >= atomic_load(at(block, WANTED)):
                    return uint64(0)
                if replace(at(block, ALIVE), alive, alive + uint64(1)):
                    break
        else:
            atomic_add(at(block, SLEEPERS), ~uint64(0))
            if stage == uint64(ENDS):
                atomic_add(at(block, ALIVE), ~uint64(0))
                return uint64(0)
        done = ~uint64(0)
        woken = stage == uint64(WAKES)
        looks = uint64(0)
        while True:
            state = atomic_load(at(block, STATE))
            job = state >> uint64(32)
            if state & uint64(OPEN) != uint64(0) and job != done:
                if replace(at(block, STATE), state, state + uint64(1)):
                    if woken and atomic_load(at(block, SLEEPERS)) != uint64(0):
                        wake(block, at(block, STATE) + uint64(4), uint64(MOST_WOKEN))
                    mine = at(block, COUNTER) + uint64(FROM_END)
                    call_kernel(load(at(block, KERNEL)), load(at(block, TABLE)), mine, uint64(ALL))
                    left = atomic_add(at(block, STATE), ~uint64(0)) - uint64(1)
                    if left & uint64(AWAITED) != uint64(0) and left & uint64(WORKERS) == uint64(0):
                        wake(block, at(block, STATE), uint64(1))
                    done, looks, woken = job, uint64(0), False
                continue
            alive = atomic_load(at(block, ALIVE))
            if alive > atomic_load(at(block, WANTED)):
                if replace(at(block, ALIVE), alive, alive - uint64(1)):
                    return uint64(0)
                continue
            is_in_python = load(at(block, STYLE)) == uint64(IN_PYTHON)
            if looks < load(at(block, SPINS)):
                looks += uint64(1)
                if woken and is_in_python:
                    # Who rings has its work yet to publish, and may wait for this very core to do so.
                    call_plain(load(at(block, YIELD)))
                else:
                    pause()
                continue
            atomic_add(at(block, SLEEPERS), uint64(1))
            if is_in_python:
                return uint64(1)
            sleep_elsewhere(block, at(block, STATE) + uint64(4), job)
            atomic_add(at(block, SLEEPERS), ~uint64(0))
            looks, woken = uint64(0), True

    return compiled(serve, CODE)


@cache
def rouse() -> Any:
    """Let every worker look how many are wanted."""

    def rouse(block):
        atomic_add(at(block, STATE), uint64(JOB))
        wake(block, at(block, STATE) + uint64(4), uint64(1 << 30))
        return uint64(0)

    return compiled(rouse, CODE)
