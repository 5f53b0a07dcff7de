"""How threads sleep and are woken in compiled code (see `waiting`): on Linux off the core of who may wake them.

A system may wake a thread on the very core that it is woken from. There it would wait for milliseconds until its
caller is done, who has then worked alone. So a worker keeps off its last caller's core while it sleeps, and only then:
one that is at work, and has to share its core with others, may go on on its caller's.

Of two cores that leaves one. A caller that the system has moved there meanwhile would wake its worker on its own core
after all: it lets it have the other one first.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.block import (
    BOUND,
    BOUND_OF,
    BOUND_OFF,
    CHANGING,
    CLOCK,
    CORE,
    CORE_FINDER,
    FUTEX,
    GET_CORES,
    GET_THREAD,
    LAST,
    MOVED,
    MOVED_TO,
    NOBODY,
    SET_CORES,
    STREAK,
    STYLE,
    SYSCALL,
    WAIT,
    WAKE_ALL,
    WAKE_ONE,
    WAKING_BYTES,
)
from anydml.engines.cpu.kernels.atomics import (
    atomic_load,
    atomic_store,
    call_of_four,
    call_plain,
    pause,
    replace,
    system_call,
)
from anydml.engines.cpu.kernels.ir import I64, load, scratch, store
from anydml.engines.cpu.kernels.language import helper, intrinsic, types, uint64
from anydml.engines.cpu.waiting import BY_FUTEX, BY_VALUE_ADDRESS, IN_PYTHON

FUTEX_WAIT, FUTEX_WAKE = 128, 129
"""Futex operations, within this process."""

FEW_WOKEN = 4
"""Threads that are woken one by one; more are woken with all others, and look in vain."""

VALUE_BYTES, FOREVER = 4, (1 << 32) - 1
"""Bytes of what is waited on, and Windows' time without end."""

MONOTONIC, SOON = 1, 15_000
"""Linux's number of the clock that is asked, and nanoseconds within which work follows other work, so few that a worker
that was awake would not fall asleep."""

MOST_CORES = 1024
MASK = MOST_CORES // 8
"""Cores that are known of, and the bytes of a set of them."""


@intrinsic
def at(typing: Any, block: Any, number: Any) -> Any:
    """The address of a word of the block."""

    # No helper: one would be compiled for every number that is a constant.
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.add(arguments[0], builder.mul(arguments[1], ir.Constant(I64, 8)))

    return types.uint64(types.uint64, types.uint64), generate


@helper
def wake(block, address, most):
    """Wake threads that sleep at an address."""
    style = load(at(block, STYLE))
    if style == uint64(BY_FUTEX):
        system_call(load(at(block, SYSCALL)), load(at(block, FUTEX)), address, uint64(FUTEX_WAKE), most)
    elif style != uint64(IN_PYTHON):
        if most > uint64(FEW_WOKEN):
            call_of_four(load(at(block, WAKE_ALL)), address, uint64(VALUE_BYTES), uint64(0), uint64(0))
        else:
            for _ in range(most):
                call_of_four(load(at(block, WAKE_ONE)), address, uint64(VALUE_BYTES), uint64(0), uint64(0))


@helper
def now(block):
    """Nanoseconds, from any time on; 0 where there is no clock."""
    clock = load(at(block, CLOCK))
    if clock == uint64(0):
        return uint64(0)
    time = scratch(16)
    call_of_four(clock, uint64(MONOTONIC), time, uint64(0), uint64(0))
    return load(time) * uint64(1_000_000_000) + load(time + uint64(8))


@helper
def is_worth_waking(block, effort):
    """Whether work that finds sleepers is large, or came soon after other such work, and together they are.

    Whoever wakes for less is of no use: it is done before, and what a worker took part in lies in the caches of another
    core when the caller comes back to it. Between calls further apart a worker would fall asleep, to be woken again for
    each.
    """
    time = now(block)
    if time - load(at(block, LAST)) < uint64(SOON):
        effort += load(at(block, STREAK))
    store(at(block, STREAK), effort)
    return effort >= uint64(WAKING_BYTES) or time == uint64(0)


@helper
def sleep(block, address, value):
    """Sleep until somebody wakes threads at this address, unless its 32 bits are no longer this value."""
    style = load(at(block, STYLE))
    if style == uint64(BY_FUTEX):
        system_call(load(at(block, SYSCALL)), load(at(block, FUTEX)), address, uint64(FUTEX_WAIT), value)
    elif style == uint64(BY_VALUE_ADDRESS):
        held = scratch(64)
        store(held, value)
        call_of_four(load(at(block, WAIT)), address, held, uint64(VALUE_BYTES), uint64(FOREVER))
    else:
        call_of_four(load(at(block, WAIT)), address, value, uint64(VALUE_BYTES), uint64(0))


@helper
def sleep_elsewhere(block, address, value):
    """Sleep likewise, off the core of the last owner."""
    allowed, narrowed, now = scratch(MASK), scratch(MASK), scratch(MASK)
    is_bound = False
    syscall, ask, say = load(at(block, SYSCALL)), load(at(block, GET_CORES)), load(at(block, SET_CORES))
    is_narrowed = False
    core = load(at(block, CORE)) - uint64(1)
    if core < uint64(MOST_CORES):
        for q in range(uint64(0), uint64(MASK), uint64(8)):
            store(allowed + q, uint64(0))
            store(now + q, uint64(0))
        if system_call(syscall, ask, uint64(0), uint64(MASK), allowed) > 0:
            others, changed = uint64(0), uint64(0)
            for q in range(uint64(0), uint64(MASK), uint64(8)):
                cores = load(allowed + q)
                if q == core // uint64(64) * uint64(8):
                    changed = cores & (uint64(1) << (core & uint64(63)))
                    cores &= ~changed
                store(narrowed + q, cores)
                others |= cores
            if others != uint64(0) and changed != uint64(0):
                is_narrowed = system_call(syscall, say, uint64(0), uint64(MASK), narrowed) == 0
            if is_narrowed and others & (others - uint64(1)) == uint64(0) and load(narrowed) == others:
                is_bound = replace(at(block, BOUND), uint64(NOBODY), uint64(CHANGING))
    if is_bound:
        store(at(block, BOUND_OFF), core)
        store(at(block, BOUND_OF), load(allowed))
        number = uint64(system_call(syscall, load(at(block, GET_THREAD)), uint64(0), uint64(0), uint64(0)))
        atomic_store(at(block, BOUND), number)
    sleep(block, address, value)
    if is_bound and is_moved(block):
        store(narrowed, load(at(block, MOVED_TO)))
    if is_bound:
        atomic_store(at(block, BOUND), uint64(NOBODY))
    if is_narrowed and system_call(syscall, ask, uint64(0), uint64(MASK), now) > 0:
        difference = uint64(0)
        for q in range(uint64(0), uint64(MASK), uint64(8)):
            difference |= load(now + q) ^ load(narrowed + q)
        if difference == uint64(0):
            # Otherwise somebody else has said meanwhile where it may run: that counts.
            system_call(syscall, say, uint64(0), uint64(MASK), allowed)


@helper
def is_moved(block):
    """Whether an owner has moved the worker whose number stands in the block. After that none does any more."""
    while True:
        state = atomic_load(at(block, BOUND))
        if state == uint64(MOVED):
            return True
        if state != uint64(CHANGING) and replace(at(block, BOUND), state, uint64(CHANGING)):
            return False
        pause()


@helper
def leave_core_free(block):
    """Move the worker that could be woken on the owner's core alone to its other one, unless somebody else has."""
    core, number = load(at(block, CORE)) - uint64(1), atomic_load(at(block, BOUND))
    if number <= uint64(MOVED) or core == load(at(block, BOUND_OFF)):
        return
    own = uint64(1) << (core & uint64(63))
    if core > uint64(63) or load(at(block, BOUND_OF)) & own == uint64(0):
        return
    if replace(at(block, BOUND), number, uint64(CHANGING)):
        cores, syscall = scratch(MASK), load(at(block, SYSCALL))
        for q in range(uint64(0), uint64(MASK), uint64(8)):
            store(cores + q, uint64(0))
        found = system_call(syscall, load(at(block, GET_CORES)), number, uint64(MASK), cores)
        following = number
        if found > 0 and load(cores) == own and load(at(block, BOUND_OF)) != own:
            store(cores, load(at(block, BOUND_OF)) & ~own)
            store(at(block, MOVED_TO), load(cores))
            if system_call(syscall, load(at(block, SET_CORES)), number, uint64(MASK), cores) == 0:
                following = uint64(MOVED)
        atomic_store(at(block, BOUND), following)


@helper
def note_core(block):
    """Say which core the owner runs on."""
    finder = load(at(block, CORE_FINDER))
    if finder != uint64(0):
        store(at(block, CORE), uint64(call_plain(finder) + 1))
