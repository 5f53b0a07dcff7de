"""A function's whole call in compiled code, from the arguments as Python gives them to the results it gets.

It is a function of C for Python: `self` is NumPy's array of the words of a table, and the arguments are the arrays or a
list of them, those that are no arrays, and `out`. It gives None where nothing fits; then nothing was done.

A table begins with Python's functions and objects by their addresses, then the number of recipes, and how many calls
are under way: until there are none, what was taken out of the table is kept. For each recipe follow a key, made from
what calls look at first, and the recipe's address. A recipe has the words that are named below, then what makes each
result, 0 for a small array of NumPy's, then of each argument that is no array four words: itself, its type, how to
compare it, and how many bytes that takes, or how many items follow, with four words each.

Everything is read under the GIL, and all that Python may do meanwhile leaves the words as they are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import uint64

from anydml.engines.cpu.kernels.atomics import call_kernel, call_of_four
from anydml.engines.cpu.kernels.driver import code_of, compiled, word
from anydml.engines.cpu.kernels.ir import helper, load, scratch, store
from anydml.engines.cpu.kernels.large import done_large, is_ready
from anydml.engines.cpu.kernels.launch import (
    CODE,
    DESCRIPTION,
    KIND,
    MOST_OPERANDS,
    OPERANDS,
    TABLE_UNIT,
    WORKSPACE,
    done_by,
    first_of,
    is_of_kind,
)
from anydml.engines.cpu.kernels.tensors import are_new_ones_plain, is_recorded, say_written
from anydml.memory import dlpack_struct as dlpack
from anydml.memory.numpy_struct import DATA, DIMENSIONS, HEADER, ITEMS, SHAPE, TYPE

NONE, ARRAY, LIST, ZERO, INCREF, DECREF, LIST_SIZE, LIST_ITEM, LIST_NEW, LIST_PUT, CALL, CALL_WITH, NUMBER = range(13)
"""Python's objects and functions."""

GUEST, ALIKE, READER, STRUCTURE = range(13, 17)
"""Another library's type of arrays, or 0, and one that is as good; what describes one of them, and the words that it
takes (see `tensors`)."""

COUNT, UNDER_WAY, LISTS, WIDE, EMPTY, FIRST_KEY = range(17, 23)
"""How many recipes there are, and calls under way; whether lists of numbers are as good as tuples; what does calls
whose recipes need more than a small workspace, the same function with a large one; and NumPy's function that makes
arrays."""

BLOCK, START, INPUTS, RESULTS, IS_LIST, HAS_PARTS, HAS_OUT, PLAIN, SPACE, FIRST_MAKER = range(10)
"""Words of a recipe: the block of `launch`; what does larger work in Python, or 0; how many inputs and results there
are; whether the inputs are a list, and the results; whether they are the caller's; how many arguments are no arrays;
and the bytes of workspace that it needs."""

SAME, BYTES, EACH = range(3)
"""How to compare: it is the very object; its bytes after the type are the same; it is a tuple of such items."""

TUPLE = ITEMS + TABLE_UNIT
SMALL, LARGE = 2048, TUPLE + 8 * MOST_OPERANDS + WORKSPACE
"""Bytes of a tuple of no operands, at most; and of a workspace: of most calls, which find it in the caches, as it lies
where the stack was used before, and of all others."""

RECORD = 32
"""Bytes of the words of an argument."""

WHOLE_CODE = code_of(
    "launch.py", "large.py", "sharing.py", "asleep.py", "tensors.py", "../block.py", "../../../memory/tensor_struct.py"
)
"""Part of the name of what is compiled here."""

PRIME = 0x100000001B3
MASK = (1 << 64) - 1


@helper
def call(table, function, first, second, third):
    """What one of Python's functions gives."""
    return call_of_four(word(table, function), first, second, third, uint64(0))


@helper
def refer(table, item, change):
    """Count a reference more, or less."""
    call(table, change, item, uint64(0), uint64(0))


@helper
def nothing(table):
    """Python's None."""
    refer(table, word(table, NONE), INCREF)
    return word(table, NONE)


@helper
def release(table, items, count):
    """Let go of as many objects."""
    for k in range(count):
        refer(table, load(items + uint64(8) * uint64(k)), DECREF)


@helper
def are_bytes_alike(left, right, size):
    """Whether as many bytes are the same, of objects that are padded to words."""
    at = uint64(0)
    while at + uint64(8) <= size:
        if load(left + at) != load(right + at):
            return False
        at += uint64(8)
    rest = size - at
    if rest == uint64(0):
        return True
    differ = load(left + at) ^ load(right + at)
    return differ << (uint64(64) - uint64(8) * rest) == uint64(0)


@helper
def is_list_for(table, record, given):
    """Whether an argument is a list that may stand for a planned tuple."""
    is_list = load(given + uint64(TYPE)) == word(table, LIST) and word(table, LISTS) != uint64(0)
    return is_list and word(record, 2) == uint64(EACH)


@helper
def is_alike(table, record, given):
    """Whether an argument is of the planned type, and equal; tuples, and lists for them, but for their items."""
    if given == load(record):
        return True
    how, size = word(record, 2), word(record, 3)
    if load(given + uint64(TYPE)) != word(record, 1):
        return is_list_for(table, record, given) and call(table, LIST_SIZE, given, uint64(0), uint64(0)) == size
    if how == uint64(BYTES):
        return are_bytes_alike(given + uint64(HEADER), load(record) + uint64(HEADER), size)
    return how == uint64(EACH) and load(given + uint64(HEADER)) == size


@helper
def are_arguments_alike(table, recipe, given):
    """Whether the arguments that are no arrays are the planned ones."""
    record = recipe + uint64(8) * (uint64(FIRST_MAKER) + word(recipe, RESULTS))
    for k in range(word(recipe, PLAIN)):
        argument = load(given + uint64(8) * uint64(k))
        if not is_alike(table, record, argument):
            return False
        planned, items, is_list = load(record), uint64(0), is_list_for(table, record, argument)
        if word(record, 2) == uint64(EACH):
            items = word(record, 3)
        record += uint64(RECORD)
        for number in range(items):
            if is_list:
                item = call(table, LIST_ITEM, argument, uint64(number), uint64(0))
            else:
                item = load(argument + uint64(ITEMS) + uint64(8) * uint64(number))
            if argument != planned and not is_alike(table, record, item):
                return False
            record += uint64(RECORD)
    return True


@helper
def key_of(shape, rank, many, is_new):
    """A number that differs for most shapes, counts of arrays, and with and without `out`."""
    key = many * uint64(2) + is_new
    for k in range(rank):
        key = (key ^ load(shape + uint64(8) * uint64(k))) * uint64(PRIME)
    return key ^ rank


@helper
def is_guests(table, recipe):
    """Whether a recipe is of another library's arrays."""
    return word(word(recipe, BLOCK), KIND) != word(table, ARRAY)


@helper
def gathered(table, recipe, arguments, out, items):
    """Put inputs and results after each other, and hold them: 0 for done, 1 if they do not fit, 2 for an error.

    New results come first, as making them may be anything: nobody has looked at lists before that is over.
    """
    inputs, results = word(recipe, INPUTS), word(recipe, RESULTS)
    own = items + uint64(8) * inputs
    if word(recipe, HAS_OUT) == uint64(0):
        if is_guests(table, recipe) and not are_new_ones_plain(word(table, STRUCTURE)):
            return uint64(1)
        planned = word(recipe, BLOCK) + uint64(8 * OPERANDS)
        for _ in range(inputs):
            planned += uint64(32) + uint64(16) * word(planned, 0)
        for k in range(results):
            maker, rank, dtype = word(recipe, FIRST_MAKER + k), word(planned, 0), word(planned, 1)
            if maker == uint64(0):
                refer(table, dtype, INCREF)
                made = call_of_four(word(table, EMPTY), rank, planned + uint64(32), dtype, uint64(0))
            else:
                made = call(table, CALL, maker, uint64(0), uint64(0))
            planned += uint64(32) + uint64(16) * rank
            if made == uint64(0):
                release(table, own, k)
                return uint64(2)
            store(own + uint64(8) * uint64(k), made)
    elif is_guests(table, recipe) and is_recorded(word(table, STRUCTURE)):
        return uint64(1)
    elif word(recipe, HAS_PARTS) != uint64(0):
        if load(out + uint64(TYPE)) != word(table, LIST) or call(table, LIST_SIZE, out, 0, 0) != results:
            return uint64(1)
        for k in range(results):
            target = call(table, LIST_ITEM, out, uint64(k), uint64(0))
            refer(table, target, INCREF)
            store(own + uint64(8) * uint64(k), target)
    else:
        refer(table, out, INCREF)
        store(own, out)
    first = load(arguments)
    if word(recipe, IS_LIST) != uint64(0):
        if call(table, LIST_SIZE, first, uint64(0), uint64(0)) != inputs:
            release(table, own, results)
            return uint64(1)
        for k in range(inputs):
            store(items + uint64(8) * uint64(k), call(table, LIST_ITEM, first, uint64(k), uint64(0)))
    else:
        for k in range(inputs):
            store(items + uint64(8) * uint64(k), load(arguments + uint64(8) * uint64(k)))
    for k in range(inputs):
        refer(table, load(items + uint64(8) * uint64(k)), INCREF)
    return uint64(0)


@helper
def started(table, start, operands):
    """What Python's function for larger work says of it: 0 for done, 1 for refused, 2 for an error."""
    refer(table, start, INCREF)
    number = call(table, NUMBER, operands, uint64(0), uint64(0))
    answer = uint64(0)
    if number != uint64(0):
        answer = call(table, CALL_WITH, start, number, uint64(0))
        refer(table, number, DECREF)
    refer(table, start, DECREF)
    if answer == uint64(0):
        return uint64(2)
    refused = uint64(1) if answer != word(table, ZERO) else uint64(0)
    refer(table, answer, DECREF)
    return refused


@helper
def is_meant(table, recipe, arguments, count, many, is_new, kind, description):
    """Whether a call's inputs, and the arguments that are no arrays, are a recipe's: `out` is not looked at."""
    block, inputs = word(recipe, BLOCK), word(recipe, INPUTS)
    is_list = many != uint64(0)
    arrays = uint64(1) if is_list else inputs
    if is_list != (word(recipe, IS_LIST) != uint64(0)) or is_new + word(recipe, HAS_OUT) != uint64(1):
        return False
    if arrays + word(recipe, PLAIN) + uint64(1) != count or (is_list and many != inputs):
        return False
    if word(block, KIND) != kind or not are_arguments_alike(table, recipe, arguments + uint64(8) * arrays):
        return False
    planned = block + uint64(8 * OPERANDS)
    for k in range(inputs):
        if is_list:
            array = call(table, LIST_ITEM, load(arguments), uint64(k), uint64(0))
        else:
            array = load(arguments + uint64(8) * uint64(k))
        if not is_of_kind(block, array) or first_of(block, planned, array, description) == uint64(0):
            return False
        planned += uint64(32) + uint64(16) * word(planned, 0)
    return True


@helper
def space_of_tuple(count):
    """Bytes that a tuple of so many operands takes of a workspace."""
    return (uint64(ITEMS + TABLE_UNIT - 1) + uint64(8) * count) & ~uint64(TABLE_UNIT - 1)


@helper
def done_with(table, recipe, arguments, out, operands):
    """Do a call by a recipe, given a workspace that begins with the tuple of operands.

    It gives 0 for done, and results are held, 1 for refused, 2 for an error.
    """
    inputs, results = word(recipe, INPUTS), word(recipe, RESULTS)
    items = operands + uint64(ITEMS)
    refused = gathered(table, recipe, arguments, out, items)
    if refused != uint64(0):
        return refused
    store(operands + uint64(HEADER), inputs + results)
    start, bounds = word(recipe, START), operands + space_of_tuple(inputs + results)
    if start == uint64(0):
        refused = done_by(word(recipe, BLOCK), operands, bounds)
    elif is_ready(word(recipe, BLOCK)):
        refused = done_large(word(recipe, BLOCK), operands, bounds)
    else:
        refused = started(table, start, operands)
    release(table, items, inputs)
    own = items + uint64(8) * inputs
    if refused != uint64(0):
        release(table, own, results)
    elif word(recipe, HAS_OUT) != uint64(0) and is_guests(table, recipe):
        for k in range(results):
            say_written(word(table, STRUCTURE), load(own + uint64(8) * uint64(k)))
    return refused


@helper
def listed(table, items, count):
    """A list that takes as many objects over; 0 for an error."""
    made = call(table, LIST_NEW, count, uint64(0), uint64(0))
    if made == uint64(0):
        release(table, items, count)
        return made
    for k in range(count):
        call(table, LIST_PUT, made, uint64(k), load(items + uint64(8) * uint64(k)))
    return made


@cache
def whole(space: int) -> Any:
    """A function's call (see above), in so many bytes of workspace."""

    def whole(own, arguments, count):
        operands = scratch(space)
        description = scratch(DESCRIPTION)
        table = load(own + uint64(DATA))
        first, out = load(arguments), load(arguments + uint64(8) * (count - uint64(1)))
        array, many = first, uint64(0)
        if load(first + uint64(TYPE)) == word(table, LIST):
            many = call(table, LIST_SIZE, first, uint64(0), uint64(0))
            if many == uint64(0):
                return nothing(table)
            array = call(table, LIST_ITEM, first, uint64(0), uint64(0))
        kind = load(array + uint64(TYPE))
        if kind == word(table, ARRAY):
            rank = load(array + uint64(DIMENSIONS)) & uint64(0xFFFFFFFF)
            shape = load(array + uint64(SHAPE))
        elif kind == word(table, GUEST) or kind == word(table, ALIKE):
            kind = word(table, GUEST)
            if call_kernel(word(table, READER), word(table, STRUCTURE), array, description) != uint64(0):
                return nothing(table)
            rank = load(description + uint64(dlpack.DIMENSIONS)) & uint64(0xFFFFFFFF)
            shape = load(description + uint64(dlpack.SHAPE))
        else:
            return nothing(table)
        is_new = uint64(1) if out == word(table, NONE) else uint64(0)
        key = key_of(shape, rank, many, is_new)
        pair = table + uint64(8 * FIRST_KEY)
        for _ in range(word(table, COUNT)):
            recipe = word(pair, 1)
            if load(pair) == key and is_meant(table, recipe, arguments, count, many, is_new, kind, description):
                if word(recipe, SPACE) > uint64(space):
                    return call_kernel(word(table, WIDE), own, arguments, count)
                results, has_parts = word(recipe, RESULTS), word(recipe, HAS_PARTS)
                own_results = operands + uint64(ITEMS) + uint64(8) * word(recipe, INPUTS)
                store(table + uint64(8 * UNDER_WAY), word(table, UNDER_WAY) + uint64(1))
                refused = done_with(table, recipe, arguments, out, operands)
                store(table + uint64(8 * UNDER_WAY), word(table, UNDER_WAY) - uint64(1))
                if refused == uint64(2):
                    return uint64(0)
                if refused == uint64(0):
                    return listed(table, own_results, results) if has_parts != uint64(0) else load(own_results)
            pair += uint64(16)
        return nothing(table)

    return compiled(whole, space, *CODE, WHOLE_CODE, nogil=False)
