"""Larger work in compiled code, of calls and bound: Python's other threads go on meanwhile, and workers take part."""

from __future__ import annotations

from functools import cache
from typing import Any

from anydml.engines.cpu.block import ALIVE, STYLE, WANTED
from anydml.engines.cpu.kernels.asleep import at
from anydml.engines.cpu.kernels.atomics import atomic_load, call_kernel, call_of_four, call_plain
from anydml.engines.cpu.kernels.driver import code_of, compiled, word
from anydml.engines.cpu.kernels.ir import load
from anydml.engines.cpu.kernels.language import helper, uint64
from anydml.engines.cpu.kernels.launch import (
    ALL,
    DONE,
    FAILED,
    FIRST,
    OPERANDS,
    POOL,
    REFUSED,
    RESTORE,
    SAVE,
    SHARES,
    SIGNALS,
    STEP_HEADER,
    STEPS,
    after,
    are_inside,
    fit,
    place,
    table_in,
)
from anydml.engines.cpu.kernels.sharing import MORE, shared
from anydml.engines.cpu.waiting import IN_PYTHON
from anydml.memory.numpy_struct import DATA, HEADER, ITEMS

CODE = code_of("atomics.py", "launch.py", "sharing.py", "asleep.py", "../block.py", "../waiting.py"), HEADER
"""Part of the names of what is compiled here."""

PYTHON, NONE, INCREF, CALL, STEP = range(OPERANDS, OPERANDS + 5)
"""Words of bound work after those that a call's block has: what does it in Python where Python has a part in it, its
None, its functions that count a reference and that call, and the words of its one step, and its table."""


@helper
def is_ready(block):
    """Whether Python has no part in it: all workers are there that there should be, and none has to be woken by it."""
    if word(block, POOL) == uint64(0) or word(block, SHARES) == uint64(0):
        return word(block, POOL) != uint64(0)
    crew = load(word(block, POOL))
    is_complete = atomic_load(at(crew, ALIVE)) >= atomic_load(at(crew, WANTED))
    return is_complete and load(at(crew, STYLE)) != uint64(IN_PYTHON)


@helper
def done_large(block, operands, bounds):
    """Do a block's work on the arrays of a tuple, given a workspace; a signal between rounds may leave an exception."""
    if not fit(block, operands, bounds) or not are_inside(block, bounds):
        return uint64(REFUSED)
    table = table_in(block, bounds)
    step = block + uint64(8) * word(block, FIRST)
    for _ in range(word(block, STEPS)):
        place(step, bounds, table)
        if not is_done(block, step, table):
            return uint64(FAILED)
        step = after(step)
    return uint64(DONE)


@helper
def is_done(block, step, table):
    """Do a step, round by round; whether no signal has left an exception."""
    following = uint64(MORE)
    while following & uint64(MORE) != uint64(0):
        state = call_of_four(word(block, SAVE), uint64(0), uint64(0), uint64(0), uint64(0))
        following = done_round(block, step, table, following >> uint64(1))
        call_of_four(word(block, RESTORE), state, uint64(0), uint64(0), uint64(0))
        if following & uint64(MORE) != uint64(0) and call_plain(word(block, SIGNALS)) != 0:
            return False
    return True


@helper
def done_round(block, step, table, begin):
    """Do a round of a step that is shared, or all of another; gives what `shared` does."""
    rounds = word(step, 3)
    if rounds == uint64(0):
        call_kernel(word(step, 0), table, uint64(0), uint64(ALL))
        return uint64(0)
    # Whoever handles a signal may fork, which leaves the child with other workers.
    return shared(load(word(block, POOL)), word(step, 0), table, begin, rounds, word(step, 4))


@cache
def dispatch() -> Any:
    """Do bound work, for Python: `self` is a tuple, whose first item is NumPy's array of its words."""

    def dispatch(own, arguments, count):
        block = load(load(own + uint64(ITEMS)) + uint64(DATA))
        if not is_ready(block):
            return call_of_four(word(block, CALL), word(block, PYTHON), uint64(0), uint64(0), uint64(0))
        step = block + uint64(8 * STEP)
        if not is_done(block, step, word(step, STEP_HEADER)):
            return uint64(0)
        call_of_four(word(block, INCREF), word(block, NONE), uint64(0), uint64(0), uint64(0))
        return word(block, NONE)

    return compiled(dispatch, *CODE, nogil=False)
