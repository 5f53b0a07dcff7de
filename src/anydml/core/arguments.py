"""Parsing of integers and axes among a call's arguments."""

import cython
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.sequence import PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from cython.cimports.cpython.tuple import PyTuple_Check
from cython.cimports.numpy import import_array

import_array()


def read_int(number, value):
    """Read a Python or NumPy integer; returns 1 for anything else, or if it exceeds 64 bits."""
    overflow: cython.int = 0
    if not isinstance(number, int):
        # A subclass may answer otherwise each time, and change arrays that have been read.
        if not PyArray_IsIntegerScalar(number) or has_heap_type(number):
            return 1
        number = number.__index__()
    value[0] = PyLong_AsLongLongAndOverflow(number, cython.address(overflow))
    return overflow != 0


def read_single_int(number, value):
    """Read a single integer where a list is allowed, too; returns 1 for anything else, bools included."""
    return isinstance(number, bool) or read_int(number, value)


def read_ints(items, values, max_count):
    """Read the integers of a list or tuple; returns their count: −1 for anything else, or more than `max_count`."""
    count: cython.int = 0
    if not (PyTuple_Check(items) or PyList_CheckExact(items)):
        return -1
    # A list may grow during the loop.
    while count < PySequence_Fast_GET_SIZE(items):
        if count == max_count or read_int(cython.cast(object, PySequence_Fast_GET_ITEM(items, count)), values + count):
            return -1
        count += 1
    return count


def normalize_axis(axis, rank):
    """Return an axis as 0 to rank − 1; −1 if it is out of range."""
    return -1 if axis < -rank or axis >= rank else axis + rank if axis < 0 else axis


def read_axis(number, rank):
    """Read an axis; returns as `normalize_axis`, and −1 for anything else."""
    axis: int64_t
    return -1 if read_int(number, cython.address(axis)) else normalize_axis(axis, rank)
