"""Conversion of a call's arguments for compiled checks: arrays to boxes, and integers.

Unusual arguments raise REFUSED: Python then does the call, or raises the error.
"""

import cython
import numpy as np
from cython.cimports.anydml.core.arrays import View, numpy_dtype, read_array, read_indices, read_mask, read_same_kind
from cython.cimports.anydml.core.simplifying import Call
from cython.cimports.anydml.core.sizing import overflows
from cython.cimports.anydml.core.tensors import Library, library_of
from cython.cimports.anydml.core.verbs import REFUSED, Box, numbers, room
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.ref import PyObject
from cython.cimports.cpython.sequence import PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from cython.cimports.cpython.tuple import PyTuple_Check
from cython.cimports.libc.math import INFINITY, fabs, isinf, trunc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.numpy import import_array

from anydml.strides import in_words

import_array()

INT_LIMIT = cython.declare(int64_t, 1 << 31)
"""Larger integers are left to Python: products of two smaller ones fit 64 bits, and sums of as many as fit memory."""

MAX_ALONG = cython.declare(int64_t, 1 << 60)
"""Maximum size of an axis: sums of a few fit 64 bits. Longer axes, as of broadcast arrays, are left to Python."""

MAX_INDICES = cython.declare(int64_t, 1 << 60)
"""This many INT64 numbers would exceed the address space."""

MAX_ITEMS = cython.declare(int64_t, 1 << 24)
"""Maximum number of integers of an array."""


class HostIntegers:
    """Integers that are read on the host."""


def read_host_integers(items):
    """Read a 1-D array, list or tuple of integers; None is left to Python."""
    if type(items) is np.ndarray:
        if items.ndim != 1 or items.dtype.kind not in "iu" or items.size > MAX_ITEMS:
            return None
        items = items.tolist()
    if type(items) is not list and type(items) is not tuple:
        return None
    result: HostIntegers = HostIntegers()
    result.values = [*items]
    result.count = len(result.values)
    result.rank_one.at, result.rank_one.count = cython.address(result.count), 1
    result.shape = cython.address(result.rank_one)
    result.is_integer = True
    for item in result.values:
        # NumPy converts bools to arrays of bools, which are not sizes.
        if isinstance(item, bool):
            return None
    return result


def with_counts(result, counts):
    """Return a result and an array of counts of the same library; None if there is no result."""
    if result is None:
        return None
    library: Library = library_of(result)
    numbers = np.array(counts, np.int64)
    return result, numbers if library is None else library.from_lengths(numbers)


def as_indices(indices):
    """Return an array of indices: lists are converted, narrow or byte-swapped integers widened or swapped."""
    if type(indices) is not np.ndarray:
        # Other libraries' arrays are returned unchanged.
        if not isinstance(indices, (list, tuple, int)) or isinstance(indices, bool):
            return indices
        try:
            indices = np.asarray(indices)
        except (TypeError, ValueError):
            return indices
        if indices.dtype.kind == "f" and not indices.size:
            # An empty list.
            return in_words(indices)
    dtype = indices.dtype
    if dtype.kind in "iu" and (dtype.itemsize < 4 or not dtype.isnative) and indices.size < MAX_INDICES:
        return in_words(indices)
    return indices


def read_first(maker, x, count):
    """Read the first of some arrays; returns 1 if it is left to Python."""
    if read_array(x, maker.call.x, maker.call.kind) or maker.item_size not in (0, maker.call.kind.element):
        return 1
    maker.first = cython.cast(cython.pointer(PyObject), x)
    maker.inputs.at = cython.cast(cython.pointer(cython.pointer(Box)), room(maker, count))
    maker.inputs.at[0] = _box(maker, maker.call.x, 0)
    return 0


def read_next(maker, x, kind):
    """Read a further array: one of the first array's kind, indices, or a mask; returns 1 if it is left to Python."""
    view: View
    c: cython.pointer(Call) = maker.call
    type: cython.int = 0
    if kind == INDICES:
        if read_indices(x, c.kind, cython.address(view), cython.address(type)):
            return 1
    elif kind == MASK:
        type = 1
        if read_mask(x, c.kind, cython.address(view)):
            return 1
    elif read_same_kind(x, cython.address(view), c.kind):
        return 1
    maker.inputs.at[maker.inputs.count] = _box(maker, cython.address(view), type)
    maker.inputs.count += 1
    return 0


def _box(maker, v, type):
    """Return an array's box, which points to the array's sizes and strides; strides in the view itself are copied."""
    x = cython.cast(cython.pointer(Box), room(maker, cython.sizeof(Box) // 8))
    for d in range(v.rank):
        if v.sizes[d] > MAX_ALONG:
            raise REFUSED
    x.data, x.rank, x.type, x.lookups = v.data, v.rank, type, 0
    x.sizes = cython.cast(cython.pointer(int64_t), v.sizes)
    x.strides = cython.cast(cython.pointer(int64_t), v.strides)
    if v.strides == v.storage and v != maker.call.x:
        x.strides = room(maker, v.rank)
        memcpy(x.strides, v.strides, v.rank * cython.sizeof(int64_t))
    return x


def read_all(maker, arrays):
    """Read arrays of one kind; returns 1 if they are left to Python.

    Their sizes along any axis add up to less than 2⁶²; those of broadcast arrays may not.
    """
    count: cython.Py_ssize_t = len(arrays)
    if read_first(maker, arrays[0], count):
        return 1
    for k in range(1, count):
        if read_next(maker, arrays[k], SAME):
            return 1
    for k in range(count):
        x = maker.inputs.at[k]
        for d in range(x.rank):
            if x.sizes[d] > (cython.cast(int64_t, 1) << 62) // count:
                return 1
    return 0


def item(maker, x, value):
    """Convert a number to an element of an array's dtype. Read the array afterwards: the number may change it."""
    c: cython.pointer(Call) = maker.call
    if read_array(x, c.x, c.kind):
        raise REFUSED
    dtype = numpy_dtype(c.kind)
    if dtype is None or is_opaque(cython.cast(cython.pointer(PyObject), dtype)):
        raise REFUSED
    class_ = type(value)
    if is_text(cython.cast(cython.pointer(PyObject), dtype)):
        # Python decides on what NumPy would cut off or convert.
        is_unicode: cython.bint = dtype.kind == "U"
        if class_ is not dtype.type and class_ is not (str if is_unicode else bytes):
            raise REFUSED
        if len(value) * (4 if is_unicode else 1) > c.kind.element:
            raise REFUSED
    elif is_time(cython.cast(cython.pointer(PyObject), dtype)):
        if class_ is not dtype.type or value.dtype != dtype:
            raise REFUSED
    elif (
        class_ is not float
        and class_ is not int
        and class_ is not bool
        and class_ is not complex
        and class_ is not dtype.type
    ):
        raise REFUSED
    if maker.item_size not in (0, c.kind.element):
        raise REFUSED
    limit: cython.double = largest(cython.cast(cython.pointer(PyObject), dtype))
    if limit < INFINITY and class_ is not dtype.type:
        is_complex: cython.bint = class_ is complex
        magnitude: cython.double = max(fabs(value.real), fabs(value.imag)) if is_complex else fabs(value)
        if limit < magnitude and (is_complex or magnitude < INFINITY):
            raise REFUSED
    maker.item_size = c.kind.element
    pattern = cython.cast(cython.p_char, room(maker, c.kind.element // 8 + 1))
    memset(pattern, 0, c.kind.element)
    pack(cython.cast(cython.pointer(PyObject), dtype), pattern, value)
    if is_extended(cython.cast(cython.pointer(PyObject), dtype)) or (class_ is float and dtype.kind in "iu"):
        number: cython.double = value
        stored_number: cython.double = element_at(cython.cast(cython.pointer(PyObject), dtype), pattern)
        # Python decides on values that change by more than rounding: ml_dtypes wraps integers, or makes them NaN. It
        # refuses fractions, which are cut off here.
        is_cut_off: cython.bint = stored_number == trunc(number) and stored_number != number
        if is_cut_off or isinf(number) or not fabs(stored_number - number) <= fabs(number) / 2:
            raise REFUSED
    return pattern


def read_int(number, value):
    """Read a Python or NumPy integer below `INT_LIMIT`; returns 1 for anything else, bools too."""
    overflow: cython.int = 0
    if isinstance(number, bool):
        return 1
    if not isinstance(number, int):
        # A subclass may answer otherwise each time, and change arrays that have been read.
        if not PyArray_IsIntegerScalar(number) or has_heap_type(number):
            return 1
        number = number.__index__()
    value[0] = PyLong_AsLongLongAndOverflow(number, cython.address(overflow))
    return overflow != 0 or not -INT_LIMIT < value[0] < INT_LIMIT


def integer(maker, field, number):
    """Read an integer."""
    value: int64_t
    if read_int(number, cython.address(value)):
        raise REFUSED
    return value


def integers_or_symbols(maker, field, items):
    """Read the integers of a list or tuple."""
    if not (PyTuple_Check(items) or PyList_CheckExact(items)) or PySequence_Fast_GET_SIZE(items) > MAX_ITEMS:
        raise REFUSED
    values = numbers(maker, PySequence_Fast_GET_SIZE(items))
    # A list may change during the loop.
    for k in range(values.count):
        if PySequence_Fast_GET_SIZE(items) != values.count or read_int(
            cython.cast(object, PySequence_Fast_GET_ITEM(items, k)), values.at + k
        ):
            raise REFUSED
    return values


def is_single(number):
    """Whether an argument that may be an integer or a list is an integer."""
    value: int64_t
    return not read_int(number, cython.address(value))


def one_or_more(maker, field, items):
    """Read a single integer, or the integers of a list or tuple."""
    if PyTuple_Check(items) or PyList_CheckExact(items):
        return integers_or_symbols(maker, field, items)
    values = numbers(maker, 1)
    if read_int(items, values.at):
        raise REFUSED
    return values


def prod(factors):
    """Return the product of sizes, at most 2⁶²."""
    product: int64_t = 1
    for k in range(factors.count):
        if factors.at[k] == 0:
            return 0
        if overflows(product, factors.at[k], cython.address(product)) or product > cython.cast(int64_t, 1) << 62:
            product = cython.cast(int64_t, 1) << 62
    return product


def are_equal(a, b):
    """Whether two shapes are equal."""
    if a.count != b.count:
        return False
    for k in range(a.count):
        if a.at[k] != b.at[k]:
            return False
    return True


def are_at_least(minimum, values):
    """Whether all numbers are `minimum` or more."""
    for k in range(values.count):
        if values.at[k] < minimum:
            return False
    return True


def sum(terms):
    """Return the sum of numbers."""
    total: int64_t = 0
    for k in range(terms.count):
        total += terms.at[k]
    return total
