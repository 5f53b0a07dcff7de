"""Reading of argument arrays in place, and creation of results; unusual arrays are left to Python."""

import cython
from cython.cimports import numpy as cnp
from cython.cimports.anydml.core.memory import new_array
from cython.cimports.anydml.core.ranges import are_disjoint, range_of
from cython.cimports.anydml.core.tensors import DLTensor, is_left_to_python, library_of, new_tensor, read_dltensor

cnp.import_array()


def read_array(x, v, k):
    """Read the first array of a call, which determines the kind of the others and of the results.

    Returns:
        0, or 1 to fall back to Python: it is not an array, or its elements are object references.
    """
    k.library = cython.NULL
    if not cnp.PyArray_CheckExact(x):
        k.descr = cython.NULL
        library: Library = library_of(x)
        if library is None or is_left_to_python(library) or read_tensor(x, library, v, cython.address(k.dtype)):
            return 1
        k.library = cython.cast(cython.pointer(PyObject), library)
        k.element = k.dtype.bits >> 3
        k.like = cython.cast(cython.pointer(PyObject), x)
        return 0
    array: ndarray = cython.cast(ndarray, x)
    if has_references(description(array)):
        return 1
    k.descr = descr_of(array)
    k.element = cnp.PyArray_ITEMSIZE(array)
    read_ndarray(array, v)
    # NumPy makes zero-length strings one character long.
    return 0 if k.element else 1


def read_same_kind(x, v, k):
    """Read another array of the same kind; returns as `read_array`, and 1 if its dtype differs."""
    dtype: DType
    if k.library != cython.NULL:
        if cnp.PyArray_CheckExact(x) or read_any(x, k, v, cython.address(dtype)):
            return 1
        return dtype.code != k.dtype.code or dtype.bits != k.dtype.bits
    if not cnp.PyArray_CheckExact(x):
        return 1
    array: ndarray = cython.cast(ndarray, x)
    if not is_alike(array, k.descr):
        return 1
    read_ndarray(array, v)
    return 0


def read_any(x, k, v, dtype):
    """Read an array of any dtype, NumPy's or of the first array's library; returns as `read_array`."""
    if not cnp.PyArray_CheckExact(x):
        if k.library == cython.NULL:
            return 1
        library: Library = cython.cast(Library, k.library)
        if type(x) is not type(cython.cast(object, k.like)) and library_of(x) is not library:
            return 1
        return read_tensor(x, library, v, dtype)
    kind: cython.char = description(x).kind
    dtype.bits = 8 * cnp.PyArray_ITEMSIZE(x)
    dtype.code = BOOL if kind == ord("b") else NO_CODE
    if description(x).byteorder != ord(">") and cnp.PyArray_ISALIGNED(x) and (kind == ord("i") or kind == ord("u")):
        dtype.code = INTEGER if kind == ord("i") else UNSIGNED
    read_ndarray(x, v)
    return 0


def read_tensor(x, library, v, dtype):
    """Read an array of another library; returns as `read_array`."""
    described: DLTensor
    if read_dltensor(library, x, cython.address(described)):
        return 1
    dtype[0] = described.dtype
    v.data = cython.cast(cython.p_char, described.data) + described.byte_offset
    v.rank = described.ndim
    v.n = described.shape
    v.element_strides = described.strides
    v.s = v.storage
    for d in range(described.ndim):
        v.storage[d] = described.strides[d] * (described.dtype.bits >> 3)
    return 0


def read_indices(x, k, v, type):
    """Read an index array, and its type as in a lookup: bytes, negative if signed; returns as `read_array`."""
    dtype: DType
    if read_any(x, k, v, cython.address(dtype)) or dtype.code > UNSIGNED or (dtype.bits != 32 and dtype.bits != 64):
        return 1
    type[0] = (dtype.bits >> 3) * (1 if dtype.code == UNSIGNED else -1)
    return 0


def read_mask(x, k, v):
    """Read an array of bools or 8-bit integers; returns as `read_array`."""
    dtype: DType
    if read_any(x, k, v, cython.address(dtype)):
        return 1
    return dtype.bits != 8 or (dtype.code > UNSIGNED and dtype.code != BOOL)


def new_result(k, rank, n, v):
    """Return a new packed array of this kind; None if its library does not make it.

    Raises:
        MemoryError: there is no memory for it.
        ValueError: it would have 2⁶³ or more bytes.
    """
    if k.library == cython.NULL:
        result: ndarray = new_array(rank, cython.cast(cython.pointer(npy_intp), n), cython.cast(cnp.dtype, k.descr))
        read_ndarray(result, v)
        return result
    bytes: cython.double = k.element
    for d in range(rank):
        # Sizes of 0 are ignored, as in NumPy.
        bytes *= max(n[d], 1)
    if bytes >= 9e18:
        return None
    library: Library = cython.cast(Library, k.library)
    tensor = new_tensor(library, cython.cast(object, k.like), rank, n, bytes, cython.address(v.data))
    if tensor is None or (v.data == cython.NULL and element_count(rank, n)):
        return None
    v.rank = rank
    v.n = n
    v.s = v.storage
    step: int64_t = k.element
    for d in range(rank - 1, -1, -1):
        v.storage[d] = step
        step *= n[d]
    return tensor


def read_output(out, k, rank, n, v):
    """Read the caller's output array; returns as `read_array`, and 1 if its shape, kind or strides do not fit."""
    if read_same_kind(out, v, k) or v.rank != rank:
        return 1
    if k.library == cython.NULL and not cnp.PyArray_ISWRITEABLE(cython.cast(ndarray, out)):
        return 1
    reach: int64_t = k.element
    for d in range(rank - 1, -1, -1):
        if v.n[d] != n[d]:
            return 1
        if n[d] > 1:
            # Other orders, and overlaps, are left to Python.
            if v.s[d] < reach:
                return 1
            reach = v.s[d] * n[d]
    return 0


def notify_written(out, k):
    """Notify the library of an array that is about to be written."""
    if k.library != cython.NULL:
        cython.cast(Library, k.library).on_write((out,))
    return 0


def is_disjoint(v, element, w, other):
    """Whether the address ranges of two arrays are disjoint, or one is empty."""
    return are_disjoint(array_range(v, element), array_range(w, other))


def array_range(v, element):
    """The address range of an array, from its first to its last byte; empty if it has no elements."""
    bounds: Range = range_of(v.data, element, v.rank, v.n, v.s)
    for d in range(v.rank):
        if v.n[d] == 0:
            bounds.low = bounds.high = cython.NULL
    return bounds


def numpy_dtype(k):
    """The NumPy dtype of a kind's elements."""
    if k.library == cython.NULL:
        return cython.cast(object, k.descr)
    return cython.cast(Library, k.library).dtypes[k.dtype.code << 8 | k.dtype.bits]()


def element_count(rank, n):
    """The number of elements of a shape."""
    count: int64_t = 1
    for d in range(rank):
        count *= n[d]
    return count
