"""Signatures of a call's arguments: a key of bytes that selects the traces, and the numbers that may differ.

Also a form: what keys have in common that differ in booleans, in NumPy's UINT64 numbers, and in the lengths of lists.

`anydml.tracing.call` reads the same, in the same order.
"""

import itertools

import cython
import numpy as np
from cython.cimports.anydml.core.arrays import description, read_array
from cython.cimports.cpython.float import PyFloat_AS_DOUBLE
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.mem import PyMem_RawFree, PyMem_RawMalloc
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.cpython.tuple import PyTuple_CheckExact
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.numpy import PyArray_TYPE, import_array

from anydml.fields import SHORT_INTEGERS

import_array()

LONG = np.int64
FLAG = np.bool_
INTEGER, SIGNED, SPAN = np.integer, np.signedinteger, np.timedelta64

DTYPES: dict = {}
"""A number for each dtype that NumPy's does not identify."""

MOST_DTYPES = cython.declare(cython.int, 4096)
UNUSED = itertools.count()

DEEPEST = cython.declare(cython.int, 64)
"""Maximum depth of nested structures."""

spare = cython.declare(cython.pointer(Arguments))
"""The last call's buffer, for the next one; concurrent and nested calls allocate others."""


def borrow_buffer():
    """Return a buffer for a call's arguments."""
    given: cython.pointer(Arguments) = exchange(cython.address(spare), cython.NULL)
    if given == cython.NULL:
        given = cython.cast(cython.pointer(Arguments), PyMem_RawMalloc(cython.sizeof(Arguments)))
    if given == cython.NULL:
        raise MemoryError
    return given


def return_buffer(given):
    """Release the arrays, and keep the buffer for the next call."""
    for k in range(given.count):
        Py_DECREF(cython.cast(object, given.arrays[k]))
    PyMem_RawFree(exchange(cython.address(spare), given))


def append_bytes(given, bytes, count):
    """Append bytes to the key and to the form; returns 1 if there is no room."""
    if given.used + count > KEY:
        return 1
    memcpy(given.key + given.used, bytes, count)
    given.used += count
    memcpy(given.form + given.formed, bytes, count)
    given.formed += count
    return 0


def append_word(given, kind, value):
    """Append a letter and a number to the key and to the form; returns as `append_bytes`."""
    return append_bytes(given, cython.address(kind), 1) or append_bytes(given, cython.address(value), 8)


def append_choice(given, kind, value):
    """As `append_word`, but the form has no number."""
    before = given.formed
    refused = append_word(given, kind, value)
    given.formed = before + 1
    return refused


def append_number(given, value):
    """Append a number; returns as `append_bytes`."""
    if given.numbers == NUMBERS:
        return 1
    given.number[given.numbers] = value
    given.numbers += 1
    return 0


def read_arguments(given, arguments, keywords):
    """Read a call's arguments; returns 1 to fall back to Python."""
    given.count = 0
    given.used = 0
    given.formed = 0
    given.numbers = 0
    given.depth = 0
    for each in arguments:
        if read_item(given, each):
            return 1
    for name, each in keywords.items():
        if append_word(given, ord("k"), 0) or read_item(given, name) or read_item(given, each):
            return 1
    return given.count == 0


def read_item(given, item):
    """Read an argument, or a part of one; returns as `read_arguments`."""
    overflow: cython.int = 0
    number: cython.double
    size: cython.Py_ssize_t
    if item is None:
        return append_word(given, ord("n"), 0)
    if type(item) is bool:
        return append_choice(given, ord("b"), 1 if item else 0)
    if type(item) is int or type(item) is LONG:
        value: int64_t = PyLong_AsLongLongAndOverflow(item, cython.address(overflow))
        return overflow != 0 or append_word(given, ord("i"), 0) or append_number(given, value)
    if type(item) is FLAG:
        return append_choice(given, ord("B"), 1 if item else 0)
    # Open numbers of a trace only say that they are.
    if issubclass(type(item), INTEGER) and not issubclass(type(item), SPAN):
        value = PyLong_AsLongLongAndOverflow(int(item), cython.address(overflow))
        own = type(item)
        kind: int64_t = cython.cast(int64_t, cython.cast(cython.pointer(PyObject), own))
        if own in SHORT_INTEGERS:
            return append_word(given, ord("I"), kind) or append_number(given, value)
        if issubclass(own, SIGNED):
            # As many bits as sizes have, by another name.
            return append_word(given, ord("i"), 0) or append_number(given, value)
        return overflow != 0 or append_word(given, ord("I"), kind) or append_choice(given, ord("v"), value)
    if type(item) is float:
        # By its bytes, 0 differs from −0, and nan equals itself.
        number = PyFloat_AS_DOUBLE(item)
        return append_word(given, ord("f"), 0) or append_bytes(given, cython.address(number), 8)
    if type(item) is str:
        try:
            text: cython.p_const_char = PyUnicode_AsUTF8AndSize(item, cython.address(size))
        except UnicodeEncodeError:
            return 1
        return append_word(given, ord("s"), size) or append_bytes(given, text, size)
    letter = ord("t") if PyTuple_CheckExact(item) else ord("l") if PyList_CheckExact(item) else ord("d")
    if letter == ord("d") and type(item) is not dict:
        return read_item_array(given, item)
    if given.depth == DEEPEST or append_choice(given, letter, len(item)):
        return 1
    given.depth += 1
    length: cython.int = 0
    if letter == ord("d"):
        for name, each in item.items():
            if type(name) is not str or read_item(given, name) or read_item(given, each):
                return 1
    else:
        size = len(item)
        for each in item:
            size -= 1
            before: cython.int = given.formed
            if read_item(given, each):
                return 1
            # Of items alike in a row, the form has one.
            if (
                given.formed - before == length
                and memcmp(given.form + before - length, given.form + before, length) == 0
            ):
                given.formed = before
            length = given.formed - before or length
        if size:
            # It changed meanwhile, and the key says how many there were.
            return 1
    given.depth -= 1
    given.form[given.formed] = ord("e")
    given.formed += 1
    return 0


def read_item_array(given, item):
    """Read an array; returns as `read_arguments`."""
    k: cython.int = given.count
    if k == ARRAYS:
        return 1
    v: cython.pointer(View) = cython.address(given.views[k])
    kind: cython.pointer(Kind) = cython.address(given.kinds[k])
    if read_array(item, v, kind) or kind.library != given.kinds[0].library:
        return 1
    if kind.library == cython.NULL:
        type_number: int64_t = PyArray_TYPE(item)
        # The number does not identify string lengths, date units, structures' fields or byte order.
        if (17 <= type_number <= 22) or (24 < type_number < 256) or description(item).byteorder == ord(">"):
            own = cython.cast(object, kind.descr)
            number = DTYPES.get(own)
            if number is None:
                if len(DTYPES) >= MOST_DTYPES:
                    return 1
                number = DTYPES.setdefault(own, next(UNUSED))
            type_number = 1 << 33 | cython.cast(int64_t, number)
    else:
        type_number = 1 << 32 | kind.dtype.code << 8 | kind.dtype.bits
    # Hold a reference, as another thread may remove the array from a list.
    Py_INCREF(item)
    given.arrays[k] = cython.cast(cython.pointer(PyObject), item)
    given.count += 1
    if given.numbers + 2 * v.rank > NUMBERS:
        return 1
    memcpy(given.number + given.numbers, v.n, 8 * v.rank)
    given.numbers += v.rank
    if is_packed(v, 0, kind.element):
        step: int64_t = kind.element
        for d in range(v.rank - 1, -1, -1):
            given.number[given.numbers + d] = step
            step *= v.n[d]
    else:
        memcpy(given.number + given.numbers, v.s, 8 * v.rank)
    given.numbers += v.rank
    return append_word(given, ord("r"), cython.cast(int64_t, v.rank) << 40 | type_number)


def is_packed(v, first, element):
    """Whether dimensions from `first` on are in row-major order without gaps; true if there are no elements."""
    step: int64_t = element
    for d in range(v.rank):
        if v.n[d] == 0:
            return True
    for d in range(v.rank - 1, first - 1, -1):
        if v.n[d] > 1 and v.s[d] != step:
            return False
        step *= v.n[d]
    return True
