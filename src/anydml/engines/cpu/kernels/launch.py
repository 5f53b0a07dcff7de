"""A whole call in compiled code: are the arrays what was planned for, and apart? Then tables are filled, and work done.

A call is described by a block of words, which `anydml.engines.cpu.launch` writes:

- COUNT, OUTPUTS: how many operands there are, and how many of them, from the front, are inputs.
- KIND, ALIKE: the addresses of the arrays' type, NumPy's or another library's, and of one that is as good, or again of
  the first.
- STEPS, FIRST: how many kernel calls there are, and the number of the first one's first word.
- WORDS, KINDS: how many arguments that are no arrays follow the operands, and the number of the first one's first word.
- TUPLE, INTEGER, FLOAT: the addresses of Python's types.
- READER, STRUCTURE, CLEAR: for another library's arrays, the addresses of what describes one, as DLPack says it; of the
  words that it takes first (see `kernels.tensors`), or 0 for the library's own function; and of what forgets the
  exception that this leaves of an array that it cannot describe. READER is 0 for NumPy's.
- POOL, SHARES, SAVE, RESTORE, SIGNALS: for larger work that is all done in compiled code (see `kernels.large`), where
  the address of the pool's crew stands, whether threads share a part of it, and Python's functions that leave the GIL,
  take it again, and handle signals; POOL is 0 for other work.
- CHECKS, FIRST_CHECK: how many lookups refuse indices outside their axis, and the number of the first one's first word.
- for each operand: dimensions, dtype, bytes from the lowest to the first element, and from that past the last, shape,
  strides. Of another library's arrays, DLPack's words: the dtype above the dimensions, and strides in elements;
- for each kernel call: the kernel's address, how many words its table has, how many of them are addresses, how many
  claims a caller makes in a round, 0 where threads do not share it, whether workers are woken for it, the table with
  offsets in those places, and for each of those its place and its operand;
- for each lookup that refuses: see `kernels.refusing`;
- for each argument that is no array: its type, and of a tuple, whose items are integers, how many there are, of a
  float its bits.

What is read of arrays lies where `anydml.memory.numpy_struct` and `anydml.memory.dlpack_struct` say, and is read under
the GIL: so nobody changes it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from anydml.engines.cpu.kernels.apart import SPAN, takes_place
from anydml.engines.cpu.kernels.atomics import call_kernel, call_of_two, call_plain
from anydml.engines.cpu.kernels.driver import code_of, compiled, word
from anydml.engines.cpu.kernels.ir import copy, load, scratch, store
from anydml.engines.cpu.kernels.language import helper, uint64
from anydml.engines.cpu.kernels.refusing import are_all_inside
from anydml.memory import dlpack_struct as dlpack
from anydml.memory.numpy_struct import DATA, DIMENSIONS, DTYPE, FLAGS, HEADER, ITEMS, SHAPE, STRIDES, TYPE, WRITEABLE

CODE = code_of("atomics.py", "apart.py", "refusing.py"), HEADER
"""Part of the names of what is compiled here."""

COUNT, OUTPUTS, KIND, STEPS, FIRST, WORDS, KINDS, TUPLE, INTEGER, FLOAT, READER, CLEAR, CHECKS, FIRST_CHECK = range(14)
STRUCTURE, ALIKE, POOL, SHARES, SAVE, RESTORE, SIGNALS, OPERANDS = range(14, 22)
STEP_HEADER = 5

MOST_OPERANDS = 1280
MOST_WORDS = 8192
"""Operands of a call, and words of one kernel's table, at most."""

BOUND, TABLE_UNIT = 24, 128
"""Bytes of what is kept of an operand (its lowest byte, the one past its highest, its first element); tables begin at
multiples of the last."""

KEPT = BOUND + SPAN
WORKSPACE = KEPT * MOST_OPERANDS + TABLE_UNIT + 8 * MOST_WORDS
"""Bytes of what is kept of an operand and its span, and of all that and a table at most: they follow each other."""

DESCRIPTION = dlpack.SIZE
"""Bytes of an array's description."""

ALL = 1 << 62

DONE, REFUSED, FAILED = 0, 1, 2
"""What is returned: the work is done; nothing was, as the operands are not what was planned for, or overlap; or there
is an exception."""


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
def are_strides_alike(sizes, left, right, rank):
    """Whether as many strides are the same, but for those of dimensions with one place."""
    for k in range(rank):
        at = uint64(8) * uint64(k)
        if load(left + at) != load(right + at) and load(sizes + at) != uint64(1):
            return False
    return True


@helper
def is_as_planned(planned, rank, kind, shape, strides):
    """Whether an array has an operand's dtype, shape and strides, whose addresses are given; its rank is known."""
    if kind != word(planned, 1):
        return False
    sizes = planned + uint64(32)
    if not are_alike(sizes, shape, rank):
        return False
    return are_strides_alike(sizes, sizes + uint64(8) * rank, strides, rank)


@helper
def is_of_kind(block, array):
    """Whether an array is of a planned type."""
    kind = load(array + uint64(TYPE))
    return kind == word(block, KIND) or kind == word(block, ALIKE)


@helper
def first_of(block, planned, array, description):
    """The address of an array's first element, or 0 if it is not what was planned for."""
    rank = word(planned, 0)
    reader = word(block, READER)
    if reader == uint64(0):
        if load(array + uint64(DIMENSIONS)) & uint64(0xFFFFFFFF) != rank:
            return uint64(0)
        shape, strides = load(array + uint64(SHAPE)), load(array + uint64(STRIDES))
        if not is_as_planned(planned, rank, load(array + uint64(DTYPE)), shape, strides):
            return uint64(0)
        return load(array + uint64(DATA))
    if word(block, STRUCTURE) != uint64(0):
        if call_kernel(reader, word(block, STRUCTURE), array, description) != uint64(0):
            return uint64(0)
    elif call_of_two(reader, array, description) != 0:
        call_plain(word(block, CLEAR))
        return uint64(0)
    if load(description + uint64(dlpack.DEVICE)) & uint64(0xFFFFFFFF) != uint64(dlpack.HOST):
        return uint64(0)
    kind = load(description + uint64(dlpack.DIMENSIONS))
    shape, strides = load(description + uint64(dlpack.SHAPE)), load(description + uint64(dlpack.STRIDES))
    if not is_as_planned(planned, rank, kind, shape, strides):
        return uint64(0)
    return load(description + uint64(dlpack.DATA)) + load(description + uint64(dlpack.OFFSET))


@helper
def fit(block, operands, bounds):
    """Whether a tuple holds what a block was made for, outputs can be written, and outputs lie apart from all.

    What is kept of operands is written to `bounds`, and then spans of them.
    """
    count, outputs = word(block, COUNT), word(block, OUTPUTS)
    if load(operands + uint64(HEADER)) != count + word(block, WORDS):
        return False
    if not are_of_kinds(block, operands + uint64(ITEMS) + uint64(8) * count):
        return False
    description = scratch(DESCRIPTION)
    lowest, highest = ~uint64(0), uint64(0)
    planned = block + uint64(8 * OPERANDS)
    own, spans = bounds, bounds + uint64(BOUND) * count
    for k in range(count):
        array = load(operands + uint64(ITEMS) + uint64(8) * uint64(k))
        if not is_of_kind(block, array):
            return False
        first = first_of(block, planned, array, description)
        if first == uint64(0):
            return False
        low, high = first - word(planned, 2), first + word(planned, 3)
        if uint64(k) >= outputs:
            if word(block, READER) == uint64(0) and load(array + uint64(FLAGS)) & uint64(WRITEABLE) == uint64(0):
                return False
            if low < highest and lowest < high:
                other = bounds
                for _ in range(outputs):
                    if low < load(other + uint64(8)) and load(other) < high:
                        return False
                    other += uint64(BOUND)
            if takes_place(spans, uint64(k) - outputs, low, high) == uint64(0):
                return False
        else:
            lowest, highest = min(lowest, low), max(highest, high)
        store(own, low)
        store(own + uint64(8), high)
        store(own + uint64(16), first)
        planned += uint64(32) + uint64(16) * word(planned, 0)
        own += uint64(BOUND)
    return True


@helper
def are_inside(block, bounds):
    """Whether no index lies outside an axis that refuses it."""
    first = bounds + uint64(16)
    return are_all_inside(block + uint64(8) * word(block, FIRST_CHECK), word(block, CHECKS), first, uint64(BOUND))


@helper
def place(step, bounds, table):
    """Write a step's table with the addresses of these operands."""
    words, addresses = word(step, 1), word(step, 2)
    template = step + uint64(8 * STEP_HEADER)
    copy(table, template, uint64(8) * words)
    pair = template + uint64(8) * words
    for _ in range(addresses):
        at = table + uint64(8) * load(pair)
        store(at, load(at) + load(bounds + uint64(BOUND) * load(pair + uint64(8)) + uint64(16)))
        pair += uint64(16)


@helper
def after(step):
    """Where the next step begins."""
    return step + uint64(8) * (uint64(STEP_HEADER) + word(step, 1) + uint64(2) * word(step, 2))


@helper
def table_in(block, workspace):
    """Where a table may lie, after what `fit` keeps."""
    kept = uint64(KEPT) * word(block, COUNT)
    return workspace + ((kept + uint64(TABLE_UNIT - 1)) & ~uint64(TABLE_UNIT - 1))


@helper
def done_by(block, operands, bounds):
    """Do a block's work on the arrays of a tuple, given a workspace: small work, under the GIL."""
    if not fit(block, operands, bounds) or not are_inside(block, bounds):
        return uint64(REFUSED)
    table = table_in(block, bounds)
    step = block + uint64(8) * word(block, FIRST)
    for _ in range(word(block, STEPS)):
        place(step, bounds, table)
        call_kernel(word(step, 0), table, uint64(0), uint64(ALL))
        step = after(step)
    return uint64(DONE)


@cache
def launch() -> Any:
    """`done_by` for Python."""

    def launch(block, operands):
        return done_by(block, operands, scratch(WORKSPACE))

    return compiled(launch, *CODE, nogil=False)


@cache
def prepare() -> Any:
    """Write a block's tables for the arrays of a tuple, one after the other."""

    def prepare(block, operands, tables):
        bounds = scratch(WORKSPACE)
        if not fit(block, operands, bounds) or not are_inside(block, bounds):
            return uint64(REFUSED)
        step = block + uint64(8) * word(block, FIRST)
        for _ in range(word(block, STEPS)):
            place(step, bounds, tables)
            tables += (uint64(8) * word(step, 1) + uint64(TABLE_UNIT - 1)) & ~uint64(TABLE_UNIT - 1)
            step = after(step)
        return uint64(DONE)

    return compiled(prepare, *CODE, nogil=False)
