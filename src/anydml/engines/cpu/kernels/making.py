"""New results in compiled code: functions of C for Python, without arguments, each of which makes arrays of one kind.

`self` is a tuple, whose first item is NumPy's array of the words that are named below. A large result lies over
a block of the warm cache (see `anydml.memory.warm`): its base is a capsule that gives the block back when it dies. All
of it runs under the GIL.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from anydml.engines.cpu.kernels.atomics import call_of_eight, call_of_four, call_of_two, call_plain, call_word
from anydml.engines.cpu.kernels.driver import code_of, compiled, word
from anydml.engines.cpu.kernels.ir import load, scratch, store
from anydml.engines.cpu.kernels.language import helper, int64, uint64
from anydml.memory.blocks import ADDRESS, SINCE
from anydml.memory.numpy_calls import CAPSULE_CONTEXT, CAPSULE_POINTER, PACKED
from anydml.memory.numpy_struct import DATA, HEADER, ITEMS
from anydml.memory.warm import ROOM, TURN

CODE = code_of("atomics.py", *[f"../../../memory/{name}.py" for name in ("blocks", "numpy_calls", "warm")]), HEADER
"""Part of the names of what is compiled here."""

COMMON, DESCR, RANK, SLOW, SIZES = range(5)
"""Words of one kind of arrays: the address of those that many share, the dtype, how many dimensions there are, what
makes a large one in Python, and then the sizes."""

INCREF, DECREF, CALL, CALL_WITH, CLEAR, FETCH, RESTORE, UNRAISABLE, CAPSULE, SET_CONTEXT = range(10)
"""Shared words: addresses of Python's functions."""

EMPTY, FROM_DESCR, SET_BASE, ARRAY = range(10, 14)
"""Those of NumPy's, and its type of arrays."""

POP, RELEASE, COUNTS, SIZE, APPEND, TEND, COMMON_WORDS = range(14, 21)
"""Of arrays over blocks of one size: what gives a block that waits, the addresses of `release` and of the cache's
counts, the bytes of a block, what has one wait, and what looks after too many."""


@helper
def words_of(own):
    """The words of a tuple's first item."""
    return load(load(own + uint64(ITEMS)) + uint64(DATA))


@helper
def dropped(common, item):
    """Let go of an object; 0, which says that there is an error."""
    call_word(common, DECREF, item, uint64(0), uint64(0))
    return uint64(0)


@helper
def settled(common, function, answer):
    """Let go of what a function of the cache's gave; what it raised has nobody to go to."""
    if answer == uint64(0):
        call_word(common, UNRAISABLE, word(common, function), uint64(0), uint64(0))
    else:
        call_word(common, DECREF, answer, uint64(0), uint64(0))


@cache
def make_small() -> Any:
    """A new array."""

    def make_small(own, arguments, count):
        words = words_of(own)
        common = load(words)
        call_word(common, INCREF, word(words, DESCR), uint64(0), uint64(0))
        sizes = words + uint64(8 * SIZES)
        return call_of_four(word(common, EMPTY), word(words, RANK), sizes, word(words, DESCR), uint64(0))

    return compiled(make_small, *CODE, nogil=False)


@cache
def make_large() -> Any:
    """A new array over a block that waits, or what `SLOW` makes where there is none."""

    def make_large(own, arguments, count):
        words = words_of(own)
        common = load(words)
        block = call_word(common, CALL, word(common, POP), uint64(0), uint64(0))
        if block == uint64(0):
            call_plain(word(common, CLEAR))
            return call_word(common, CALL, word(words, SLOW), uint64(0), uint64(0))
        room = word(common, COUNTS) + uint64(8 * ROOM)
        store(room, load(room) + word(common, SIZE))
        call_word(common, INCREF, word(words, DESCR), uint64(0), uint64(0))
        made = call_of_eight(
            word(common, FROM_DESCR),
            word(common, ARRAY),
            word(words, DESCR),
            word(words, RANK),
            words + uint64(8 * SIZES),
            uint64(0),
            word(load(block + uint64(DATA)), ADDRESS),
            uint64(PACKED),
            uint64(0),
        )
        if made == uint64(0):
            return dropped(common, block)
        capsule = call_of_four(word(common, CAPSULE), block, uint64(0), word(common, RELEASE), uint64(0))
        if capsule == uint64(0):
            dropped(common, made)
            return dropped(common, block)
        call_word(common, SET_CONTEXT, capsule, common, uint64(0))
        if call_of_two(word(common, SET_BASE), made, capsule) != 0:
            return dropped(common, made)
        return made

    return compiled(make_large, *CODE, nogil=False)


@cache
def release() -> Any:
    """Have the block of a capsule that dies wait for the next result, whatever exception is on its way."""

    def release(capsule, second, third):
        block, common = load(capsule + uint64(CAPSULE_POINTER)), load(capsule + uint64(CAPSULE_CONTEXT))
        errors = scratch(32)
        call_of_four(word(common, FETCH), errors, errors + uint64(8), errors + uint64(16), uint64(0))
        counts = word(common, COUNTS)
        turn, room = word(counts, TURN) + uint64(1), word(counts, ROOM) - word(common, SIZE)
        store(counts + uint64(8 * TURN), turn)
        store(load(block + uint64(DATA)) + uint64(8 * SINCE), turn)
        store(counts + uint64(8 * ROOM), room)
        settled(common, APPEND, call_word(common, CALL_WITH, word(common, APPEND), block, uint64(0)))
        dropped(common, block)
        if int64(room) < 0:
            settled(common, TEND, call_word(common, CALL, word(common, TEND), uint64(0), uint64(0)))
        call_of_four(
            word(common, RESTORE), load(errors), load(errors + uint64(8)), load(errors + uint64(16)), uint64(0)
        )
        return uint64(0)

    return compiled(release, *CODE, nogil=False)
