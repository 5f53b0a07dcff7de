"""Signatures of a call's arguments: a key of bytes that selects the traces, and the numbers that may differ.

Also a form: what keys have in common that differ in booleans, in NumPy's UINT64 numbers, in the lengths of lists, and,
unless it names them, in floats, texts and other objects: `naming` is 0 for none, 1 for those outside lists, 2 for all.

`anydml.tracing.call` reads the same, in the same order.
"""

import enum
import itertools

import cython
import numpy as np
from cython.cimports.anydml.core.arrays import description, read_array
from cython.cimports.cpython.dict import PyDict_Check
from cython.cimports.cpython.float import PyFloat_AS_DOUBLE
from cython.cimports.cpython.list import PyList_Check
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.mem import PyMem_RawFree, PyMem_RawMalloc
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.cpython.tuple import PyTuple_Check
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.numpy import PyArray_CheckExact, PyArray_TYPE, import_array

from anydml.fields import SHORT_INTEGERS

import_array()

LONG = np.int64
DOUBLE = np.float64
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
    given.naming = 0
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


def is_named(given):
    """Whether the form names floats, texts and other objects here: outside structures, or everywhere."""
    return given.naming > (1 if given.depth else 0)


def append_named(given, kind, bytes, count):
    """Append a letter and bytes, of which the form has none unless it names them; returns as `append_bytes`."""
    before = given.formed
    refused = append_word(given, kind, count) or append_bytes(given, bytes, count)
    if not is_named(given):
        given.formed = before + 1
    return refused


def append_object(given, kind, item):
    """Append an object by its identity, and to the form by its type unless it names it; returns as `append_bytes`."""
    own = type(item)
    of = cython.cast(cython.pointer(PyObject), item)
    value: int64_t = cython.cast(int64_t, cython.cast(cython.pointer(PyObject), own))
    before = given.formed
    if given.objects == OBJECTS or append_word(given, kind, cython.cast(int64_t, of)):
        return 1
    given.object[given.objects] = of
    given.objects += 1
    if not is_named(given):
        memcpy(given.form + before + 1, cython.address(value), 8)
    return 0


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
    given.objects = 0
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
    if PyArray_CheckExact(item):
        return read_item_array(given, item)
    if item is None:
        if append_word(given, ord("n"), 0):
            return 1
        if given.depth and not is_named(given):
            # Beside numbers, it is a choice.
            given.form[given.formed - 9] = ord("i")
        return 0
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
    if type(item) is float or type(item) is DOUBLE:
        # By its bytes, 0 differs from −0, and nan equals itself.
        number = PyFloat_AS_DOUBLE(item)
        return append_named(given, ord("f") if type(item) is float else ord("F"), cython.address(number), 8)
    if type(item) is str:
        try:
            text: cython.p_const_char = PyUnicode_AsUTF8AndSize(item, cython.address(size))
        except UnicodeEncodeError:
            return 1
        return append_named(given, ord("s"), text, size)
    letter = ord("t") if PyTuple_Check(item) else ord("l") if PyList_Check(item) else ord("d")
    if letter == ord("d") and not PyDict_Check(item):
        return append_object(given, ord("o"), item) if is_plain(type(item)) else read_item_array(given, item)
    own = type(item)
    if own is not tuple and own is not list and own is not dict and append_object(given, ord("c"), own):
        return 1
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


PLAIN: dict = {}
"""Types of arguments, and whether these are neither arrays nor of values that change."""

IMMUTABLE = (bytes, complex, range, slice)
IMMUTABLE_OF = ("datetime", "decimal", "fractions")
ARRAYS_HAVE = (
    "__array__",
    "__array_interface__",
    "__array_struct__",
    "__cuda_array_interface__",
    "__dlpack__",
    "__getitem__",
)


def is_plain(kind):
    """Whether the identity of a type's objects says what they are, as long as they exist: they are no arrays."""
    known = PLAIN.get(kind)
    if known is None:
        known = kind in IMMUTABLE or issubclass(kind, enum.Enum) or kind.__module__ in IMMUTABLE_OF
        # Records are views of an array.
        known = known or (issubclass(kind, np.generic) and not issubclass(kind, np.void))
        # As `anydml.tracing.structure.static_key` compares them.
        known = known or (kind.__eq__ is object.__eq__ and not any(hasattr(kind, name) for name in ARRAYS_HAVE))
        PLAIN[kind] = known
    return known


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
