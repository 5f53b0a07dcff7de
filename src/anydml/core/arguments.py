"""Parsing of integers and axes among a call's arguments."""

import cython
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.sequence import PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from cython.cimports.cpython.tuple import PyTuple_Check
from cython.cimports.numpy import import_array

import_array()


def read_int(given, found):
    """Read a Python or NumPy integer; returns 1 for anything else, or if it exceeds 64 bits."""
    overflow: cython.int = 0
    if not isinstance(given, int):
        # A subclass may answer otherwise each time, and change arrays that have been read.
        if not PyArray_IsIntegerScalar(given) or has_heap_type(given):
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
    if not (PyTuple_Check(given) or PyList_CheckExact(given)):
        return -1
    # A list may grow during the loop.
    while count < PySequence_Fast_GET_SIZE(given):
        if count == most or read_int(cython.cast(object, PySequence_Fast_GET_ITEM(given, count)), found + count):
            return -1
        count += 1
    return count


def normalize_axis(axis, rank):
    """Return an axis as 0 to rank − 1; −1 if it is out of range."""
    return -1 if axis < -rank or axis >= rank else axis + rank if axis < 0 else axis


def read_axis(given, rank):
    """Read an axis; returns as `normalize_axis`, and −1 for anything else."""
    axis: int64_t
    return -1 if read_int(given, cython.address(axis)) else normalize_axis(axis, rank)
