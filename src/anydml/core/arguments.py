"""Integers, axes and words of a call, as Python gives them."""

import cython
from cython.cimports.anydml.core.arrays import RANK
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.tuple import PyTuple_Check
from cython.cimports.libc.stdint import int64_t
from cython.cimports.numpy import import_array

import_array()


def number(given, found):
    """An integer of Python's or NumPy's; returns 1 for all else."""
    overflow: cython.int = 0
    if not isinstance(given, int):
        if not PyArray_IsIntegerScalar(given):
            return 1
        given = given.__index__()
    found[0] = PyLong_AsLongLongAndOverflow(given, cython.address(overflow))
    return overflow != 0


def one(given, found):
    """An integer where a list of them would do, too; returns 1 for all else: bools are neither."""
    return isinstance(given, bool) or number(given, found)


def numbers(given, found, most):
    """The integers of a list or tuple, and how many there are; −1 for all else, or where there are more than `most`."""
    count: cython.int = 0
    if PyTuple_Check(given):
        values: tuple = cython.cast(tuple, given)
        if len(values) > most:
            return -1
        for each in values:
            if number(each, found + count):
                return -1
            count += 1
        return count
    if PyList_CheckExact(given):
        listed: list = cython.cast(list, given)
        for each in listed:
            # The list may grow while its elements are looked at.
            if count == most or number(each, found + count):
                return -1
            count += 1
        return count
    return -1


def axis_of(given, rank, axis):
    """An axis from 0 to rank − 1; returns 1 where it is none."""
    return number(given, axis) or from_either_end(axis, rank)


def marked(axes, rank, along):
    """Which axes are among some, or all for None; returns 1 where one is none, or there twice."""
    d: cython.int
    k: cython.int
    given: int64_t[64]
    for d in range(rank):
        along[d] = axes is None
    if axes is None:
        return 0
    count: cython.int = 1
    if one(axes, given):
        count = numbers(axes, given, RANK)
    for k in range(count):
        if from_either_end(given + k, rank) or along[given[k]]:
            return 1
        along[given[k]] = True
    return count < 0


def is_text(given):
    """Whether a word is a text: whatever else there is compares as it likes, and could change arrays that were read."""
    return type(given) is str


def is_product(n, times):
    """Whether a product is a size that an array may have."""
    return not n or times <= (cython.cast(int64_t, 1) << 48) // n
