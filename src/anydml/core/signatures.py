"""Signatures of a call's arguments: a key of bytes that selects the traces, and the numbers that may differ.

They also build a pattern, which is the same for keys that differ only in booleans, NumPy's UINT64 numbers and lengths
of lists, and in floats, strings and other objects unless the pattern names these. `naming` is 0 if it names none, 1 if
it names those outside lists, and 2 if it names all.

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

INT64 = np.int64
FLOAT64 = np.float64
BOOL_ = np.bool_
INTEGER, SIGNED, TIMEDELTA = np.integer, np.signedinteger, np.timedelta64

DTYPES: dict = {}
"""A number for each dtype that NumPy's does not identify."""

MAX_DTYPES = cython.declare(cython.int, 4096)
DTYPE_NUMBERS = itertools.count()

MAX_DEPTH = cython.declare(cython.int, 64)
"""Maximum depth of nested structures."""

spare_buffer = cython.declare(cython.pointer(Arguments))
"""The last call's buffer, for the next one; concurrent and nested calls allocate others."""


def borrow_buffer():
    """Return a buffer for a call's arguments."""
    buffer: cython.pointer(Arguments) = exchange(cython.address(spare_buffer), cython.NULL)
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
    PyMem_RawFree(exchange(cython.address(spare_buffer), buffer))


def append_bytes(buffer, bytes, count):
    """Append bytes to the key and to the pattern; returns 1 if there is no room."""
    if buffer.key_length + count > KEY:
        return 1
    memcpy(buffer.key + buffer.key_length, bytes, count)
    buffer.key_length += count
    memcpy(buffer.pattern + buffer.pattern_length, bytes, count)
    buffer.pattern_length += count
    return 0


def append_word(buffer, tag, value):
    """Append a letter and a number to the key and to the pattern; returns as `append_bytes`."""
    return append_bytes(buffer, cython.address(tag), 1) or append_bytes(buffer, cython.address(value), 8)


def append_choice(buffer, tag, value):
    """Like `append_word`, but the pattern has no number."""
    before = buffer.pattern_length
    refused = append_word(buffer, tag, value)
    buffer.pattern_length = before + 1
    return refused


def is_named(buffer):
    """Whether floats, strings and other objects are in the pattern here: outside structures, or everywhere."""
    return buffer.naming > (1 if buffer.depth else 0)


def append_named(buffer, tag, bytes, count):
    """Append a tag and bytes; the pattern contains the bytes only if `is_named`. Returns as `append_bytes`."""
    before = buffer.pattern_length
    refused = append_word(buffer, tag, count) or append_bytes(buffer, bytes, count)
    if not is_named(buffer):
        buffer.pattern_length = before + 1
    return refused


def append_object(buffer, tag, item):
    """Append an object by its identity; to the pattern by its type, unless `is_named`. Returns as `append_bytes`."""
    class_ = type(item)
    of = cython.cast(cython.pointer(PyObject), item)
    value: int64_t = cython.cast(int64_t, cython.cast(cython.pointer(PyObject), class_))
    before = buffer.pattern_length
    if buffer.object_count == OBJECTS or append_word(buffer, tag, cython.cast(int64_t, of)):
        return 1
    buffer.objects[buffer.object_count] = of
    buffer.object_count += 1
    if not is_named(buffer):
        memcpy(buffer.pattern + before + 1, cython.address(value), 8)
    return 0


def append_number(buffer, value):
    """Append a number; returns as `append_bytes`."""
    if buffer.number_count == NUMBERS:
        return 1
    buffer.numbers[buffer.number_count] = value
    buffer.number_count += 1
    return 0


def append_integer(buffer, value, is_long):
    """Append an integer that stays open, of Python or of NumPy; returns as `append_bytes`."""
    if append_word(buffer, ord("i"), 0) or append_number(buffer, value):
        return 1
    buffer.is_long[buffer.integer_count] = is_long
    buffer.integer_count += 1
    buffer.longs |= is_long
    return 0


def read_arguments(buffer, arguments, keywords):
    """Read a call's arguments; returns 1 to fall back to Python."""
    buffer.count = 0
    buffer.key_length = 0
    buffer.pattern_length = 0
    buffer.number_count = 0
    buffer.object_count = 0
    buffer.integer_count = 0
    buffer.longs = 0
    buffer.depth = 0
    for argument in arguments:
        if read_item(buffer, argument):
            return 1
    for name, argument in keywords.items():
        if append_word(buffer, ord("k"), 0) or read_item(buffer, name) or read_item(buffer, argument):
            return 1
    if buffer.longs:
        # Whether numbers are NumPy's is an open number, too: functions that never ask need no further trace.
        if append_word(buffer, ord("L"), 0):
            return 1
        for k in range(buffer.integer_count):
            if append_number(buffer, buffer.is_long[k]):
                return 1
    return buffer.count == 0


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
            # In a list of numbers, None is treated like a choice.
            buffer.pattern[buffer.pattern_length - 9] = ord("i")
        return 0
    if type(item) is bool:
        return append_choice(buffer, ord("b"), 1 if item else 0)
    if type(item) is int or type(item) is INT64:
        value: int64_t = PyLong_AsLongLongAndOverflow(item, cython.address(overflow))
        return overflow != 0 or append_integer(buffer, value, type(item) is INT64)
    if type(item) is BOOL_:
        return append_choice(buffer, ord("B"), 1 if item else 0)
    # Of open numbers of a trace, only the fact that they are open counts.
    if issubclass(type(item), INTEGER) and not issubclass(type(item), TIMEDELTA):
        value = PyLong_AsLongLongAndOverflow(int(item), cython.address(overflow))
        class_ = type(item)
        class_number: int64_t = cython.cast(int64_t, cython.cast(cython.pointer(PyObject), class_))
        if class_ in SHORT_INTEGERS:
            return append_word(buffer, ord("I"), class_number) or append_number(buffer, value)
        if issubclass(class_, SIGNED):
            # Another name of the type with as many bits as sizes.
            return append_integer(buffer, value, True)
        return overflow != 0 or append_word(buffer, ord("I"), class_number) or append_choice(buffer, ord("v"), value)
    if type(item) is float or type(item) is FLOAT64:
        # A float counts by its bytes: 0 differs from −0, and nan equals itself.
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
    if class_ is not tuple and class_ is not list and class_ is not dict:
        # Attributes are compared in Python.
        if getattr(item, "__dict__", None) or append_object(buffer, ord("c"), class_):
            return 1
    if buffer.depth == MAX_DEPTH or append_choice(buffer, letter, len(item)):
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
            before: cython.int = buffer.pattern_length
            if read_item(buffer, member):
                return 1
            # Of consecutive items with equal patterns, the pattern contains one.
            if (
                buffer.pattern_length - before == length
                and memcmp(buffer.pattern + before - length, buffer.pattern + before, length) == 0
            ):
                buffer.pattern_length = before
            length = buffer.pattern_length - before or length
        if size:
            # The list changed meanwhile, and the key has the number of items before.
            return 1
    buffer.depth -= 1
    buffer.pattern[buffer.pattern_length] = ord("e")
    buffer.pattern_length += 1
    return 0


PLAIN_TYPES: dict = {}
"""Types of arguments, and whether these are neither arrays nor of values that change."""

IMMUTABLE_TYPES = (bytes, complex, range, slice)
IMMUTABLE_MODULES = ("datetime", "decimal", "fractions")
ARRAY_ATTRIBUTES = (
    "__array__",
    "__array_interface__",
    "__array_struct__",
    "__cuda_array_interface__",
    "__dlpack__",
    "__getitem__",
)


def is_plain(class_):
    """Whether objects of a type can be told apart by identity while they exist, as arrays cannot."""
    is_plain_type = PLAIN_TYPES.get(class_)
    if is_plain_type is None:
        is_plain_type = (
            class_ in IMMUTABLE_TYPES or issubclass(class_, enum.Enum) or class_.__module__ in IMMUTABLE_MODULES
        )
        # Records are views of an array.
        is_plain_type = is_plain_type or (issubclass(class_, np.generic) and not issubclass(class_, np.void))
        # Each access makes a new method or frozen set, which equals the one before.
        is_plain_type = is_plain_type or (
            (class_.__eq__ is object.__eq__ or class_.__module__ != "builtins")
            and class_.__hash__ is not None
            and not any(hasattr(class_, name) for name in ARRAY_ATTRIBUTES)
        )
        PLAIN_TYPES[class_] = is_plain_type
    return is_plain_type


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
                number = DTYPES.setdefault(descr, next(DTYPE_NUMBERS))
            type_number = 1 << 33 | cython.cast(int64_t, number)
    else:
        type_number = 1 << 32 | kind.dtype.code << 8 | kind.dtype.bits
    # Hold a reference, as another thread may remove the array from a list.
    Py_INCREF(item)
    buffer.arrays[k] = cython.cast(cython.pointer(PyObject), item)
    buffer.count += 1
    if buffer.number_count + 2 * v.rank > NUMBERS:
        return 1
    memcpy(buffer.numbers + buffer.number_count, v.sizes, 8 * v.rank)
    buffer.number_count += v.rank
    if is_packed(v, 0, kind.element):
        step: int64_t = kind.element
        for d in range(v.rank - 1, -1, -1):
            buffer.numbers[buffer.number_count + d] = step
            step *= v.sizes[d]
    else:
        memcpy(buffer.numbers + buffer.number_count, v.strides, 8 * v.rank)
    buffer.number_count += v.rank
    return append_word(buffer, ord("r"), cython.cast(int64_t, v.rank) << 40 | type_number)


def is_packed(v, first, element):
    """Whether dimensions from `first` on are in row-major order without gaps; true if there are no elements."""
    step: int64_t = element
    for d in range(v.rank):
        if v.sizes[d] == 0:
            return True
    for d in range(v.rank - 1, first - 1, -1):
        if v.sizes[d] > 1 and v.strides[d] != step:
            return False
        step *= v.sizes[d]
    return True
