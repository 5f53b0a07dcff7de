"""Arguments of whole calls that are no arrays: whether they are the planned ones."""

from __future__ import annotations

from anydml.engines.cpu.kernels.atomics import call_word
from anydml.engines.cpu.kernels.call_table import FIRST_MAKER, LIST, LIST_ITEM, LIST_SIZE, LISTS, PLAIN, RESULTS
from anydml.engines.cpu.kernels.driver import word
from anydml.engines.cpu.kernels.ir import load
from anydml.engines.cpu.kernels.language import helper, uint64
from anydml.memory.numpy_struct import HEADER, ITEMS, TYPE

SAME, BYTES, EACH = range(3)
"""How to compare: it is the very object; its bytes after the type are the same; it is a tuple of such items."""

RECORD = 32
"""Bytes of the words of an argument."""


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
        return is_list_for(table, record, given) and call_word(table, LIST_SIZE, given, uint64(0), uint64(0)) == size
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
                item = call_word(table, LIST_ITEM, argument, uint64(number), uint64(0))
            else:
                item = load(argument + uint64(ITEMS) + uint64(8) * uint64(number))
            if argument != planned and not is_alike(table, record, item):
                return False
            record += uint64(RECORD)
    return True
