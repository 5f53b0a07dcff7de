"""Calls of Python's functions that come to compiled code first: a whole call (see `whole`) without a step of Python.

Python calls a function through a word of its own, its vectorcall function. The one here finds the function's words in a
table, puts the arguments where the parameters are, as Python would, and does the call. Whatever it does not do, wrong
arguments among it, goes Python's own way.

The table is of `SLOTS` pairs, a function's address and that of its words, and begins with the address of Python's own
way. A function's words are those named below; then, for each parameter, its name and its default, 0 where it has none;
then the places of what a whole call takes; then those of parameters that must be left at their default.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.atomics import call_kernel, call_of_four, call_word
from anydml.engines.cpu.kernels.call_table import (
    ALIKE,
    ARRAY,
    DECREF,
    GUEST,
    LIST,
    LIST_ITEM,
    LIST_SIZE,
    NONE,
    refer,
)
from anydml.engines.cpu.kernels.driver import code_of, compiled, word
from anydml.engines.cpu.kernels.ir import I64, load, scratch, store
from anydml.engines.cpu.kernels.language import helper, intrinsic, types, uint64
from anydml.engines.cpu.kernels.loading import Kernel
from anydml.memory.numpy_struct import DATA, HEADER, ITEMS, TYPE

ANSWER_CODE = code_of("call_table.py", "answer.py")
"""Part of the name of what is compiled here."""

SLOTS = 256
"""Pairs of the table: more than there are functions."""

FUNCTION, OWN, CODE, PARAMETERS, POSITIONAL, GIVEN, LEFT, FIRST_NAME = range(8)
"""Words of a function: itself, NumPy's array of its calls' table, the address of `whole`, how many parameters there are
and how many of them may be given by their place, how many arguments a whole call takes, and how many are to be left
alone."""

MOST_PARAMETERS = 16
SPACE = 8 * MOST_PARAMETERS

OFFSET = 1 << 63
"""The bit of a vectorcall's count that says that the word before the arguments may be changed."""


@intrinsic
def kept_word(typing: Any) -> Any:
    """The address of a word of this code's own; used in one function alone."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        name = "anydml_kept_word"
        held = builder.module.globals.get(name)
        if held is None:
            held = ir.GlobalVariable(builder.module, I64, name)
            held.linkage, held.initializer = "internal", ir.Constant(I64, 0)
        return builder.ptrtoint(held, I64)

    return types.uint64(), generate


@helper
def words_of(table, function):
    """The words of a function, or 0."""
    at = slot_of(function)
    for _ in range(SLOTS):
        pair = table + uint64(8) + uint64(16) * at
        if load(pair) == function:
            # Two threads may have written one pair at the same time.
            words = word(pair, 1)
            return words if word(words, FUNCTION) == function else uint64(0)
        if load(pair) == uint64(0):
            return uint64(0)
        at = (at + uint64(1)) & uint64(SLOTS - 1)
    return uint64(0)


@helper
def slot_of(function):
    """Where a function is looked for first."""
    return ((function >> uint64(4)) ^ (function >> uint64(12))) & uint64(SLOTS - 1)


@helper
def are_placed(words, arguments, count, names, placed):
    """Put arguments in the order of the parameters; whether they are as many, and named, as they should be."""
    parameters = word(words, PARAMETERS)
    if count > word(words, POSITIONAL):
        return False
    own_names = words + uint64(8 * FIRST_NAME)
    defaults = own_names + uint64(8) * parameters
    for k in range(count):
        store(placed + uint64(8) * uint64(k), load(arguments + uint64(8) * uint64(k)))
    for k in range(count, parameters):
        store(placed + uint64(8) * uint64(k), load(defaults + uint64(8) * uint64(k)))
    if names != uint64(0):
        for k in range(load(names + uint64(HEADER))):
            name, place = load(names + uint64(ITEMS) + uint64(8) * uint64(k)), count
            while place < parameters and load(own_names + uint64(8) * place) != name:
                place += uint64(1)
            if place == parameters:
                return False
            store(placed + uint64(8) * place, load(arguments + uint64(8) * (count + uint64(k))))
    for k in range(parameters):  # noqa: SIM110  # kernels have no generators
        if load(placed + uint64(8) * uint64(k)) == uint64(0):
            return False
    return True


@helper
def is_of_arrays(table, first, out):
    """Whether a call's first argument is an array of a known type, or a list that begins with one.

    Another library's has new results: what `out` would be is said by Python, which knows who records calls.
    """
    kind = load(first + uint64(TYPE))
    if kind == word(table, LIST):
        if call_word(table, LIST_SIZE, first, uint64(0), uint64(0)) == uint64(0):
            return False
        kind = load(call_word(table, LIST_ITEM, first, uint64(0), uint64(0)) + uint64(TYPE))
    is_guest = kind == word(table, GUEST) or kind == word(table, ALIKE)
    return kind == word(table, ARRAY) or (is_guest and out == word(table, NONE))


@helper
def answered(words, placed, given):
    """What a whole call gives, 0 for an exception, or None's address where it does nothing."""
    table = load(word(words, OWN) + uint64(DATA))
    places = words + uint64(8 * FIRST_NAME) + uint64(16) * word(words, PARAMETERS)
    count, none = word(words, GIVEN), word(table, NONE)
    out = load(placed + uint64(8) * load(places + uint64(8) * (count - uint64(1))))
    if not is_of_arrays(table, load(placed + uint64(8) * load(places)), out):
        return none
    for k in range(count):
        store(given + uint64(8) * uint64(k), load(placed + uint64(8) * load(places + uint64(8) * uint64(k))))
    left = places + uint64(8) * count
    defaults = words + uint64(8 * FIRST_NAME) + uint64(8) * word(words, PARAMETERS)
    for k in range(word(words, LEFT)):
        place = load(left + uint64(8) * uint64(k))
        if load(placed + uint64(8) * place) != load(defaults + uint64(8) * place):
            return none
    result = call_kernel(word(words, CODE), word(words, OWN), given, count)
    if result == none:
        refer(table, result, DECREF)
    return result


@cache
def answer() -> Kernel:
    """The vectorcall function; without a function it takes the table's address."""

    def answer(function, arguments, flags, names):
        place = kept_word()
        if function == uint64(0):
            store(place, arguments)
            return uint64(0)
        table = load(place)
        words = words_of(table, function)
        if words != uint64(0):
            placed, given = scratch(SPACE), scratch(SPACE)
            if are_placed(words, arguments, flags & ~uint64(OFFSET), names, placed):
                result = answered(words, placed, given)
                if result != word(load(word(words, OWN) + uint64(DATA)), NONE):
                    return result
        return call_of_four(load(table), function, arguments, flags, names)

    return compiled(answer, ANSWER_CODE, nogil=False)
