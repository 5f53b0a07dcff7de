"""A function's whole call in compiled code, from the arguments as Python gives them to the results it gets.

It is a function of C for Python: `self` is NumPy's array of the words of a table, and the arguments are the arrays or a
list of them, those that are no arrays, and `out`. It gives None where nothing fits; then nothing was done.

Recipes of calls, and Python's own functions, stand in a table (see `call_table`). Everything is read under the GIL, and
all that Python may do meanwhile leaves the words as they are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from anydml.engines.cpu.kernels.arguments import are_arguments_alike
from anydml.engines.cpu.kernels.atomics import call_kernel, call_word
from anydml.engines.cpu.kernels.call_table import (
    ALIKE,
    ARRAY,
    BLOCK,
    CALL,
    CALL_WITH,
    COUNT,
    DECREF,
    FIRST_KEY,
    FIRST_MAKER,
    GUEST,
    HAS_OUT,
    HAS_PARTS,
    INCREF,
    INPUTS,
    IS_LIST,
    LIST,
    LIST_ITEM,
    LIST_NEW,
    LIST_PUT,
    LIST_SIZE,
    NEW_ARRAY,
    NONE,
    NUMBER,
    PLAIN,
    READER,
    RESULTS,
    SPACE,
    START,
    STRUCTURE,
    UNDER_WAY,
    WIDE,
    ZERO,
    refer,
)
from anydml.engines.cpu.kernels.driver import code_of, compiled, word
from anydml.engines.cpu.kernels.ir import load, scratch, store
from anydml.engines.cpu.kernels.language import helper, uint64
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

TUPLE = ITEMS + TABLE_UNIT
SMALL, LARGE = 2048, TUPLE + 8 * MOST_OPERANDS + WORKSPACE
"""Bytes of a tuple of no operands, at most; and of a workspace: of most calls, which find it in the caches, as it lies
where the stack was used before, and of all others."""

WHOLE_CODE = code_of(
    *[f"{name}.py" for name in ("launch", "call_table", "arguments", "large", "sharing", "asleep", "tensors")],
    "../block.py",
    "../../../memory/tensor_struct.py",
)
"""Part of the name of what is compiled here."""

PRIME = 0x100000001B3
MASK = (1 << 64) - 1


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
def collected(table, recipe, arguments, out, items):
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
                made = call_word(table, NEW_ARRAY, rank, planned + uint64(32), dtype)
            else:
                made = call_word(table, CALL, maker, uint64(0), uint64(0))
            planned += uint64(32) + uint64(16) * rank
            if made == uint64(0):
                release(table, own, k)
                return uint64(2)
            store(own + uint64(8) * uint64(k), made)
    elif is_guests(table, recipe) and is_recorded(word(table, STRUCTURE)):
        return uint64(1)
    elif word(recipe, HAS_PARTS) != uint64(0):
        if load(out + uint64(TYPE)) != word(table, LIST) or call_word(table, LIST_SIZE, out, 0, 0) != results:
            return uint64(1)
        for k in range(results):
            target = call_word(table, LIST_ITEM, out, uint64(k), uint64(0))
            refer(table, target, INCREF)
            store(own + uint64(8) * uint64(k), target)
    else:
        refer(table, out, INCREF)
        store(own, out)
    first = load(arguments)
    if word(recipe, IS_LIST) != uint64(0):
        if call_word(table, LIST_SIZE, first, uint64(0), uint64(0)) != inputs:
            release(table, own, results)
            return uint64(1)
        for k in range(inputs):
            store(items + uint64(8) * uint64(k), call_word(table, LIST_ITEM, first, uint64(k), uint64(0)))
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
    number = call_word(table, NUMBER, operands, uint64(0), uint64(0))
    answer = uint64(0)
    if number != uint64(0):
        answer = call_word(table, CALL_WITH, start, number, uint64(0))
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
            array = call_word(table, LIST_ITEM, load(arguments), uint64(k), uint64(0))
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
    refused = collected(table, recipe, arguments, out, items)
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
    made = call_word(table, LIST_NEW, count, uint64(0), uint64(0))
    if made == uint64(0):
        release(table, items, count)
        return made
    for k in range(count):
        call_word(table, LIST_PUT, made, uint64(k), load(items + uint64(8) * uint64(k)))
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
            many = call_word(table, LIST_SIZE, first, uint64(0), uint64(0))
            if many == uint64(0):
                return nothing(table)
            array = call_word(table, LIST_ITEM, first, uint64(0), uint64(0))
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
