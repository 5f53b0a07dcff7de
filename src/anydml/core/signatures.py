"""Signatures of a call's arguments: a key of bytes that selects the traces, and the numbers that may differ.

Also a form: what keys have in common that differ in booleans, in NumPy's UINT64 numbers, in the lengths of lists, and,
unless it names them, in floats, texts and other objects: `naming` is 0 for none, 1 for those outside lists, 2 for all.

`anydml.tracing.call_arguments` reads the same, in the same order.
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

MAX_DTYPES = cython.declare(cython.int, 4096)
UNUSED = itertools.count()

DEEPEST = cython.declare(cython.int, 64)
"""Maximum depth of nested structures."""

spare = cython.declare(cython.pointer(Arguments))
"""The last call's buffer, for the next one; concurrent and nested calls allocate others."""


def borrow_buffer():
    """Return a buffer for a call's arguments."""
    buffer: cython.pointer(Arguments) = exchange(cython.address(spare), cython.NULL)
    if buffer == cython.NULL:
        buffer = cython.cast(cython.pointer(Arguments), PyMem_RawMalloc(cython.sizeof(Arguments)))
    if buffer == cython.NULL:
        raise MemoryError
    buffer.naming = 0
    return buffer


def return_buffer(buffer):
    """Release the arrays, and keep the buffer for the next call."""
    for k in range(buffer.count):
        Py_DECREF(cython.cast(object, buffer.arrays[k]))
    PyMem_RawFree(exchange(cython.address(spare), buffer))


def append_bytes(buffer, bytes, count):
    """Append bytes to the key and to the form; returns 1 if there is no room."""
    if buffer.used + count > KEY:
        return 1
    memcpy(buffer.key + buffer.used, bytes, count)
    buffer.used += count
    memcpy(buffer.form + buffer.formed, bytes, count)
    buffer.formed += count
    return 0


def append_word(buffer, kind, value):
    """Append a letter and a number to the key and to the form; returns as `append_bytes`."""
    return append_bytes(buffer, cython.address(kind), 1) or append_bytes(buffer, cython.address(value), 8)


def append_choice(buffer, kind, value):
    """Like `append_word`, but the form has no number."""
    before = buffer.formed
    refused = append_word(buffer, kind, value)
    buffer.formed = before + 1
    return refused


def is_named(buffer):
    """Whether the form names floats, texts and other objects here: outside structures, or everywhere."""
    return buffer.naming > (1 if buffer.depth else 0)


def append_named(buffer, kind, bytes, count):
    """Append a letter and bytes, of which the form has none unless it names them; returns as `append_bytes`."""
    before = buffer.formed
    refused = append_word(buffer, kind, count) or append_bytes(buffer, bytes, count)
    if not is_named(buffer):
        buffer.formed = before + 1
    return refused


def append_object(buffer, kind, item):
    """Append an object by its identity, and to the form by its type unless it names it; returns as `append_bytes`."""
    class_ = type(item)
    of = cython.cast(cython.pointer(PyObject), item)
    value: int64_t = cython.cast(int64_t, cython.cast(cython.pointer(PyObject), class_))
    before = buffer.formed
    if buffer.objects == OBJECTS or append_word(buffer, kind, cython.cast(int64_t, of)):
        return 1
    buffer.object[buffer.objects] = of
    buffer.objects += 1
    if not is_named(buffer):
        memcpy(buffer.form + before + 1, cython.address(value), 8)
    return 0


def append_number(buffer, value):
    """Append a number; returns as `append_bytes`."""
    if buffer.numbers == NUMBERS:
        return 1
    buffer.number[buffer.numbers] = value
    buffer.numbers += 1
    return 0


def read_arguments(buffer, arguments, keywords):
    """Read a call's arguments; returns 1 to fall back to Python."""
    buffer.count = 0
    buffer.used = 0
    buffer.formed = 0
    buffer.numbers = 0
    buffer.objects = 0
    buffer.longs = 0
    buffer.depth = 0
    for argument in arguments:
        if read_item(buffer, argument):
            return 1
    for name, argument in keywords.items():
        if append_word(buffer, ord("k"), 0) or read_item(buffer, name) or read_item(buffer, argument):
            return 1
    return buffer.count == 0 or (buffer.longs and append_word(buffer, ord("L"), 0))


def read_item(buffer, item):
    """Read an argument, or a part of one; returns as `read_arguments`."""
    overflow: cython.int = 0
    number: cython.double
    size: cython.Py_ssize_t
    if PyArray_CheckExact(item):
        return read_item_array(buffer, item)
    if item is None:
        if append_word(buffer, ord("n"), 0):
            return 1
        if buffer.depth and not is_named(buffer):
            # Beside numbers, it is a choice.
            buffer.form[buffer.formed - 9] = ord("i")
        return 0
    if type(item) is bool:
        return append_choice(buffer, ord("b"), 1 if item else 0)
    if type(item) is int or type(item) is LONG:
        value: int64_t = PyLong_AsLongLongAndOverflow(item, cython.address(overflow))
        buffer.longs |= type(item) is LONG
        return overflow != 0 or append_word(buffer, ord("i"), 0) or append_number(buffer, value)
    if type(item) is FLAG:
        return append_choice(buffer, ord("B"), 1 if item else 0)
    # Open numbers of a trace only say that they are.
    if issubclass(type(item), INTEGER) and not issubclass(type(item), SPAN):
        value = PyLong_AsLongLongAndOverflow(int(item), cython.address(overflow))
        class_ = type(item)
        kind: int64_t = cython.cast(int64_t, cython.cast(cython.pointer(PyObject), class_))
        if class_ in SHORT_INTEGERS:
            return append_word(buffer, ord("I"), kind) or append_number(buffer, value)
        if issubclass(class_, SIGNED):
            # As many bits as sizes have, by another name.
            buffer.longs = 1
            return append_word(buffer, ord("i"), 0) or append_number(buffer, value)
        return overflow != 0 or append_word(buffer, ord("I"), kind) or append_choice(buffer, ord("v"), value)
    if type(item) is float or type(item) is DOUBLE:
        # By its bytes, 0 differs from −0, and nan equals itself.
        number = PyFloat_AS_DOUBLE(item)
        return append_named(buffer, ord("f") if type(item) is float else ord("F"), cython.address(number), 8)
    if type(item) is str:
        try:
            text: cython.p_const_char = PyUnicode_AsUTF8AndSize(item, cython.address(size))
        except UnicodeEncodeError:
            return 1
        return append_named(buffer, ord("s"), text, size)
    letter = ord("t") if PyTuple_Check(item) else ord("l") if PyList_Check(item) else ord("d")
    if letter == ord("d") and not PyDict_Check(item):
        return append_object(buffer, ord("o"), item) if is_plain(type(item)) else read_item_array(buffer, item)
    class_ = type(item)
    if class_ is not tuple and class_ is not list and class_ is not dict and append_object(buffer, ord("c"), class_):
        return 1
    if buffer.depth == DEEPEST or append_choice(buffer, letter, len(item)):
        return 1
    buffer.depth += 1
    length: cython.int = 0
    if letter == ord("d"):
        for name, member in item.items():
            if type(name) is not str or read_item(buffer, name) or read_item(buffer, member):
                return 1
    else:
        size = len(item)
        for member in item:
            size -= 1
            before: cython.int = buffer.formed
            if read_item(buffer, member):
                return 1
            # Of items alike in a row, the form has one.
            if (
                buffer.formed - before == length
                and memcmp(buffer.form + before - length, buffer.form + before, length) == 0
            ):
                buffer.formed = before
            length = buffer.formed - before or length
        if size:
            # It changed meanwhile, and the key says how many there were.
            return 1
    buffer.depth -= 1
    buffer.form[buffer.formed] = ord("e")
    buffer.formed += 1
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
    """Whether objects of a type can be told apart by identity while they exist, as arrays cannot."""
    is_known_plain = PLAIN.get(kind)
    if is_known_plain is None:
        is_known_plain = kind in IMMUTABLE or issubclass(kind, enum.Enum) or kind.__module__ in IMMUTABLE_OF
        # Records are views of an array.
        is_known_plain = is_known_plain or (issubclass(kind, np.generic) and not issubclass(kind, np.void))
        # Methods and frozen sets are made anew, equal to those before.
        is_known_plain = is_known_plain or (
            (kind.__eq__ is object.__eq__ or kind.__module__ != "builtins")
            and kind.__hash__ is not None
            and not any(hasattr(kind, name) for name in ARRAYS_HAVE)
        )
        PLAIN[kind] = is_known_plain
    return is_known_plain


def read_item_array(buffer, item):
    """Read an array; returns as `read_arguments`."""
    k: cython.int = buffer.count
    if k == ARRAYS:
        return 1
    v: cython.pointer(View) = cython.address(buffer.views[k])
    kind: cython.pointer(Kind) = cython.address(buffer.kinds[k])
    if read_array(item, v, kind) or kind.library != buffer.kinds[0].library:
        return 1
    if kind.library == cython.NULL:
        type_number: int64_t = PyArray_TYPE(item)
        # The number does not identify string lengths, date units, structures' fields or byte order.
        if (17 <= type_number <= 22) or (24 < type_number < 256) or description(item).byteorder == ord(">"):
            descr = cython.cast(object, kind.descr)
            number = DTYPES.get(descr)
            if number is None:
                if len(DTYPES) >= MAX_DTYPES:
                    return 1
                number = DTYPES.setdefault(descr, next(UNUSED))
            type_number = 1 << 33 | cython.cast(int64_t, number)
    else:
        type_number = 1 << 32 | kind.dtype.code << 8 | kind.dtype.bits
    # Hold a reference, as another thread may remove the array from a list.
    Py_INCREF(item)
    buffer.arrays[k] = cython.cast(cython.pointer(PyObject), item)
    buffer.count += 1
    if buffer.numbers + 2 * v.rank > NUMBERS:
        return 1
    memcpy(buffer.number + buffer.numbers, v.n, 8 * v.rank)
    buffer.numbers += v.rank
    if is_packed(v, 0, kind.element):
        step: int64_t = kind.element
        for d in range(v.rank - 1, -1, -1):
            buffer.number[buffer.numbers + d] = step
            step *= v.n[d]
    else:
        memcpy(buffer.number + buffer.numbers, v.s, 8 * v.rank)
    buffer.numbers += v.rank
    return append_word(buffer, ord("r"), cython.cast(int64_t, v.rank) << 40 | type_number)


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
