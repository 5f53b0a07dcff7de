"""A whole call in compiled code: are the arrays what was planned for, and apart? Then tables are filled, and work done.

A call is described by a block of words, which `anydml.engines.cpu.launch` writes:

- COUNT, OUTPUTS: how many operands there are, and how many of them, from the front, are inputs.
- KIND: the address of NumPy's type of arrays.
- STEPS, FIRST: how many kernel calls there are, and the number of the first one's first word.
- WORDS, KINDS: how many arguments that are no arrays follow the operands, and the number of the first one's first word.
- TUPLE, INTEGER, FLOAT: the addresses of Python's types.
- for each operand: dimensions, dtype, bytes from the lowest to the first element, and from that past the last, shape,
  strides;
- for each kernel call: the kernel's address, how many words its table has, how many of them are addresses, the table
  with offsets in those places, and for each of those its place and its operand;
- for each argument that is no array: its type, and of a tuple, whose items are integers, how many there are, of a
  float its bits.

What is read of arrays lies where `anydml.memory.numpy_struct` says, and is read under the GIL: so nobody changes it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import uint64

from anydml.engines.cpu.kernels.atomics import call_kernel
from anydml.engines.cpu.kernels.driver import code_of, compiled, word
from anydml.engines.cpu.kernels.ir import copy, helper, load, scratch, store
from anydml.memory.numpy_struct import DATA, DIMENSIONS, DTYPE, FLAGS, HEADER, ITEMS, SHAPE, STRIDES, TYPE, WRITEABLE

CODE = code_of("atomics.py"), HEADER
"""Part of the names of what is compiled here."""

COUNT, OUTPUTS, KIND, STEPS, FIRST, WORDS, KINDS, TUPLE, INTEGER, FLOAT = range(10)
OPERANDS = 10
STEP_HEADER = 3

MOST_OPERANDS = 128
MOST_WORDS = 512
"""Operands of a call, and words of one kernel's table, at most."""

BOUNDS, TABLE = 16 * MOST_OPERANDS, 8 * MOST_WORDS
"""Bytes of what is kept of the operands' bounds, and of a table."""

ALL = 1 << 62

DONE, REFUSED = 0, 1
"""What is returned: the work is done, or nothing was, as the operands are not what was planned for, or overlap."""


@helper
def are_alike(left, right, count):
    """Whether as many words are the same."""
    for k in range(count):  # noqa: SIM110  # kernels have no generators
        if load(left + uint64(8) * uint64(k)) != load(right + uint64(8) * uint64(k)):
            return False
    return True


@helper
def are_of_kinds(block, given):
    """Whether arguments, whose addresses follow each other, are of the planned types. That they are equal is known."""
    planned = block + uint64(8) * word(block, KINDS)
    for k in range(word(block, WORDS)):
        argument = load(given + uint64(8) * uint64(k))
        kind = load(argument + uint64(TYPE))
        if kind != word(planned, 0):
            return False
        if kind == word(block, FLOAT) and load(argument + uint64(HEADER)) != word(planned, 1):
            return False
        if kind == word(block, TUPLE):
            if load(argument + uint64(HEADER)) != word(planned, 1):
                return False
            for item in range(word(planned, 1)):
                value = load(argument + uint64(ITEMS) + uint64(8) * uint64(item))
                if load(value + uint64(TYPE)) != word(block, INTEGER):
                    return False
        planned += uint64(16)
    return True


@helper
def fit(block, operands):
    """Whether a tuple holds what a block was made for, outputs can be written, and outputs lie apart from all."""
    count, outputs, kind = word(block, COUNT), word(block, OUTPUTS), word(block, KIND)
    if load(operands + uint64(HEADER)) != count + word(block, WORDS):
        return False
    if not are_of_kinds(block, operands + uint64(ITEMS) + uint64(8) * count):
        return False
    bounds = scratch(BOUNDS)
    lowest, highest = ~uint64(0), uint64(0)
    planned = block + uint64(8 * OPERANDS)
    for k in range(count):
        array = load(operands + uint64(ITEMS) + uint64(8) * uint64(k))
        if load(array + uint64(TYPE)) != kind:
            return False
        rank = word(planned, 0)
        if load(array + uint64(DIMENSIONS)) & uint64(0xFFFFFFFF) != rank:
            return False
        if load(array + uint64(DTYPE)) != word(planned, 1):
            return False
        sizes = planned + uint64(32)
        if not are_alike(sizes, load(array + uint64(SHAPE)), rank):
            return False
        if not are_alike(sizes + uint64(8) * rank, load(array + uint64(STRIDES)), rank):
            return False
        first = load(array + uint64(DATA))
        low, high = first - word(planned, 2), first + word(planned, 3)
        if uint64(k) >= outputs:
            if load(array + uint64(FLAGS)) & uint64(WRITEABLE) == uint64(0):
                return False
            if low < highest and lowest < high:
                for other in range(k):
                    pair = bounds + uint64(16) * uint64(other)
                    if low < load(pair + uint64(8)) and load(pair) < high:
                        return False
        store(bounds + uint64(16) * uint64(k), low)
        store(bounds + uint64(16) * uint64(k) + uint64(8), high)
        lowest, highest = min(lowest, low), max(highest, high)
        planned += uint64(32) + uint64(16) * rank
    return True


@helper
def place(step, operands, table):
    """Write a step's table with the addresses of these operands."""
    words, addresses = word(step, 1), word(step, 2)
    template = step + uint64(8 * STEP_HEADER)
    copy(table, template, uint64(8) * words)
    pair = template + uint64(8) * words
    for _ in range(addresses):
        at = table + uint64(8) * load(pair)
        array = load(operands + uint64(ITEMS) + uint64(8) * load(pair + uint64(8)))
        store(at, load(at) + load(array + uint64(DATA)))
        pair += uint64(16)


@helper
def after(step):
    """Where the next step begins."""
    return step + uint64(8) * (uint64(STEP_HEADER) + word(step, 1) + uint64(2) * word(step, 2))


@cache
def launch() -> Any:
    """Do a block's work on the arrays of a tuple: small work, under the GIL."""

    def launch(block, operands):
        if not fit(block, operands):
            return uint64(REFUSED)
        table = scratch(TABLE)
        step = block + uint64(8) * word(block, FIRST)
        for _ in range(word(block, STEPS)):
            place(step, operands, table)
            call_kernel(word(step, 0), table, uint64(0), uint64(ALL))
            step = after(step)
        return uint64(DONE)

    return compiled(launch, *CODE, signature="uint64(uint64, uint64)", nogil=False)


@cache
def prepare() -> Any:
    """Write a block's tables for the arrays of a tuple, one after the other, `MOST_WORDS` apart."""

    def prepare(block, operands, tables):
        if not fit(block, operands):
            return uint64(REFUSED)
        step = block + uint64(8) * word(block, FIRST)
        for k in range(word(block, STEPS)):
            place(step, operands, tables + uint64(TABLE) * uint64(k))
            step = after(step)
        return uint64(DONE)

    return compiled(prepare, *CODE, signature="uint64(uint64, uint64, uint64)", nogil=False)


@cache
def repeat() -> Any:
    """Do small work whose tables are filled, under the GIL, unless an array is read-only.

    The words are: how many arrays and how many kernel calls there are, the arrays' own addresses, and for each call the
    kernel's address and the table's.
    """

    def repeat(words):
        arrays, steps = load(words), word(words, 1)
        at = words + uint64(16)
        for _ in range(arrays):
            if load(load(at) + uint64(FLAGS)) & uint64(WRITEABLE) == uint64(0):
                return uint64(REFUSED)
            at += uint64(8)
        for _ in range(steps):
            call_kernel(load(at), word(at, 1), uint64(0), uint64(ALL))
            at += uint64(16)
        return uint64(DONE)

    return compiled(repeat, *CODE, signature="uint64(uint64)", nogil=False)
