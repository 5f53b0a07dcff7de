"""Parsing of integers, axes and strings among a call's arguments."""

import cython
from cython.cimports.anydml.core.arrays import RANK
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.tuple import PyTuple_Check
from cython.cimports.libc.stdint import int64_t
from cython.cimports.numpy import import_array

import_array()


def read_int(given, found):
    """Read a Python or NumPy integer; returns 1 for anything else, or if it exceeds 64 bits."""
    overflow: cython.int = 0
    if not isinstance(given, int):
        if not PyArray_IsIntegerScalar(given):
            return 1
        given = given.__index__()
    found[0] = PyLong_AsLongLongAndOverflow(given, cython.address(overflow))
    return overflow != 0


def read_single_int(given, found):
    """Read a single integer where a list is allowed, too; returns 1 for anything else, bools included."""
    return isinstance(given, bool) or read_int(given, found)


def read_ints(given, found, most):
    """Read the integers of a list or tuple and return their count; −1 for anything else, or for more than `most`."""
    count: cython.int = 0
    if PyTuple_Check(given):
        values: tuple = cython.cast(tuple, given)
        if len(values) > most:
            return -1
        for each in values:
            if read_int(each, found + count):
                return -1
            count += 1
        return count
    if PyList_CheckExact(given):
        listed: list = cython.cast(list, given)
        for each in listed:
            # The list may grow during the loop.
            if count == most or read_int(each, found + count):
                return -1
            count += 1
        return count
    return -1


def read_axis(given, rank, axis):
    """Read an axis and normalize it to 0 to rank − 1; returns 1 if it is invalid."""
    return read_int(given, axis) or normalize_axis(axis, rank)


def mark_axes(axes, rank, along):
    """Set along[d] for each axis d of `axes`, or for all if None; returns 1 if an axis is invalid or repeated."""
    given: int64_t[64]
    for d in range(rank):
        along[d] = axes is None
    if axes is None:
        return 0
    count: cython.int = 1
    if read_single_int(axes, given):
        count = read_ints(axes, given, RANK)
    for k in range(count):
        if normalize_axis(given + k, rank) or along[given[k]]:
            return 1
        along[given[k]] = True
    return count < 0


def is_str(given):
    """Whether an argument is exactly a str: comparing other types could run code that changes arrays already read."""
    return type(given) is str


def fits_product(n, times):
    """Whether n · times is at most 2⁴⁸, the limit of sizes here."""
    return not n or times <= (cython.cast(int64_t, 1) << 48) // n
