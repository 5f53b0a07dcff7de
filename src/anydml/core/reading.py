"""Reading of a call's arguments, for the checks of operators that are compiled: arrays as boxes, and integers.

What is unusual raises REFUSED, and Python does the call, or says what is wrong with it.
"""

import cython
import numpy as np
from cython.cimports.anydml.core.arguments import read_int, read_ints, read_single_int
from cython.cimports.anydml.core.arrays import View, read_same_kind
from cython.cimports.anydml.core.calls import begin
from cython.cimports.anydml.core.tensors import Library, library_of
from cython.cimports.anydml.core.verbs import REFUSED, Box, numbers, room
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.sequence import PySequence_Fast_GET_SIZE
from cython.cimports.cpython.tuple import PyTuple_Check
from cython.cimports.libc.string import memcpy

MOST = cython.declare(int64_t, 1 << 31)
"""From here on, integers are left to Python: products of two fit 64 bits, and sums of as many as memory has."""

MOST_ITEMS = cython.declare(int64_t, 1 << 24)
"""Maximum number of integers of an array."""


class Listed:
    """Integers that are read on the host."""


def listed(given):
    """Read a 1-D array, list or tuple of integers; None is left to Python."""
    if type(given) is np.ndarray:
        if given.ndim != 1 or given.dtype.kind not in "iu" or given.size > MOST_ITEMS:
            return None
        given = given.tolist()
    if type(given) is not list and type(given) is not tuple:
        return None
    found: Listed = Listed()
    found.values = [*given]
    found.count = len(found.values)
    found.own.at, found.own.count = cython.address(found.count), 1
    found.shape = cython.address(found.own)
    found.is_integer = True
    for each in found.values:
        # NumPy converts bools to arrays of bools, which are not sizes.
        if isinstance(each, bool):
            return None
    return found


def with_counts(found, counts):
    """Return a result and the second one, numbers in the result's library; None if there is no result."""
    if found is None:
        return None
    library: Library = library_of(found)
    made = np.array(counts, np.int64)
    return found, made if library is None else library.from_lengths(made)


def read_one(make, x):
    """Read the only array; NULL if it is left to Python."""
    return cython.NULL if begin(make.call, x) else _box(make, make.call.x)


def _box(make, v):
    """An array's box. Its sizes and strides stay where they are."""
    x = cython.cast(cython.pointer(Box), room(make, cython.sizeof(Box) // 8))
    x.data, x.rank = v.data, v.rank
    x.n = cython.cast(cython.pointer(int64_t), v.n)
    x.s = cython.cast(cython.pointer(int64_t), v.s)
    return x


def read_all(make, arrays):
    """Read arrays of one kind; returns 1 if they are left to Python.

    Their sizes along any axis add up to less than 2⁶²; those of broadcast arrays may not.
    """
    count: cython.Py_ssize_t = len(arrays)
    if begin(make.call, arrays[0]):
        return 1
    other: View
    v: cython.pointer(View) = make.call.x
    make.inputs.at = cython.cast(cython.pointer(cython.pointer(Box)), room(make, count))
    make.inputs.count = count
    for k in range(count):
        if k:
            v = cython.address(other)
            if read_same_kind(arrays[k], v, make.call.kind):
                return 1
        for d in range(v.rank):
            if v.n[d] > (cython.cast(int64_t, 1) << 62) // count:
                return 1
        x = _box(make, v)
        if k and v.s == v.storage:
            x.s = room(make, v.rank)
            memcpy(x.s, v.s, v.rank * cython.sizeof(int64_t))
        make.inputs.at[k] = x
    return 0


def integer(make, field, given):
    """Read an integer."""
    found: int64_t
    if read_int(given, cython.address(found)) or not -MOST < found < MOST:
        raise REFUSED
    return found


def integers_or_symbols(make, field, given):
    """Read the integers of a list or tuple."""
    if not (PyTuple_Check(given) or PyList_CheckExact(given)):
        raise REFUSED
    found = numbers(make, PySequence_Fast_GET_SIZE(given))
    if found.count > MOST_ITEMS or read_ints(given, found.at, cython.cast(cython.int, found.count)) != found.count:
        raise REFUSED
    for k in range(found.count):
        if not -MOST < found.at[k] < MOST:
            raise REFUSED
    return found


def is_single(given):
    """Whether there is an integer where a list is allowed, too; bools are left to Python."""
    found: int64_t
    return not read_single_int(given, cython.address(found))


def one_or_more(make, field, given):
    """Read a single integer, or the integers of a list or tuple."""
    if not is_single(given):
        return integers_or_symbols(make, field, given)
    found = numbers(make, 1)
    found.at[0] = integer(make, field, given)
    return found


def are_equal(a, b):
    """Whether two shapes are equal."""
    if a.count != b.count:
        return False
    for k in range(a.count):
        if a.at[k] != b.at[k]:
            return False
    return True


def are_at_least(least, given):
    """Whether all numbers are `least` or more."""
    for k in range(given.count):
        if given.at[k] < least:
            return False
    return True


def sum(given):
    """The sum of numbers."""
    found: int64_t = 0
    for k in range(given.count):
        found += given.at[k]
    return found
