"""Reading of argument arrays in place, and creation of results; unusual arrays are left to Python."""

import cython
from cython.cimports import numpy as cnp
from cython.cimports.anydml.core.memory import new_array
from cython.cimports.anydml.core.ranges import are_disjoint, range_of
from cython.cimports.anydml.core.tensors import DLTensor, is_left_to_python, library_of, new_tensor, read_dltensor

cnp.import_array()


def read_array(array, view, kind):
    """Read the first array of a call, which determines the kind of the others and of the results.

    Returns:
        0, or 1 to fall back to Python: it is not an array, or its elements are object references.
    """
    kind.library = cython.NULL
    if not cnp.PyArray_CheckExact(array):
        kind.descr = cython.NULL
        library: Library = library_of(array)
        if (
            library is None
            or is_left_to_python(library)
            or read_tensor(array, library, view, cython.address(kind.dtype))
        ):
            return 1
        kind.library = cython.cast(cython.pointer(PyObject), library)
        kind.element = kind.dtype.bits >> 3
        kind.like = cython.cast(cython.pointer(PyObject), array)
        return 0
    numpy_array: ndarray = cython.cast(ndarray, array)
    if has_references(description(numpy_array)):
        return 1
    kind.descr = descr_of(numpy_array)
    kind.element = cnp.PyArray_ITEMSIZE(numpy_array)
    read_ndarray(numpy_array, view)
    # NumPy makes zero-length strings one character long.
    return 0 if kind.element else 1


def read_same_kind(array, view, kind):
    """Read another array of the same kind; returns as `read_array`, and 1 if its dtype differs."""
    dtype: DType
    if kind.library != cython.NULL:
        if cnp.PyArray_CheckExact(array) or read_any(array, kind, view, cython.address(dtype)):
            return 1
        return dtype.code != kind.dtype.code or dtype.bits != kind.dtype.bits
    if not cnp.PyArray_CheckExact(array):
        return 1
    numpy_array: ndarray = cython.cast(ndarray, array)
    if not is_alike(numpy_array, kind.descr):
        return 1
    read_ndarray(numpy_array, view)
    return 0


def read_any(array, kind, view, dtype):
    """Read an array of any dtype, NumPy's or of the first array's library; returns as `read_array`."""
    if not cnp.PyArray_CheckExact(array):
        if kind.library == cython.NULL:
            return 1
        library: Library = cython.cast(Library, kind.library)
        if type(array) is not type(cython.cast(object, kind.like)) and library_of(array) is not library:
            return 1
        return read_tensor(array, library, view, dtype)
    type_code: cython.char = description(array).kind
    dtype.bits = 8 * cnp.PyArray_ITEMSIZE(array)
    dtype.code = BOOL if type_code == ord("b") else NO_CODE
    if (
        description(array).byteorder != ord(">")
        and cnp.PyArray_ISALIGNED(array)
        and (type_code == ord("i") or type_code == ord("u"))
    ):
        dtype.code = INTEGER if type_code == ord("i") else UNSIGNED
    read_ndarray(array, view)
    return 0


def read_tensor(array, library, view, dtype):
    """Read an array of another library; returns as `read_array`."""
    described: DLTensor
    if read_dltensor(library, array, cython.address(described)):
        return 1
    dtype[0] = described.dtype
    view.data = cython.cast(cython.p_char, described.data) + described.byte_offset
    view.rank = described.ndim
    view.sizes = described.shape
    view.strides = view.storage
    for d in range(described.ndim):
        view.storage[d] = described.strides[d] * (described.dtype.bits >> 3)
    return 0


def read_indices(array, kind, view, type):
    """Read an index array, and its type as in a lookup: bytes, negative if signed; returns as `read_array`."""
    dtype: DType
    if (
        read_any(array, kind, view, cython.address(dtype))
        or dtype.code > UNSIGNED
        or (dtype.bits != 32 and dtype.bits != 64)
    ):
        return 1
    type[0] = (dtype.bits >> 3) * (1 if dtype.code == UNSIGNED else -1)
    return 0


def read_mask(array, kind, view):
    """Read an array of bools or 8-bit integers; returns as `read_array`."""
    dtype: DType
    if read_any(array, kind, view, cython.address(dtype)):
        return 1
    return dtype.bits != 8 or (dtype.code > UNSIGNED and dtype.code != BOOL)


def new_result(kind, rank, sizes, view):
    """Return a new packed array of a kind; None if the library did not make one.

    Raises:
        MemoryError: there is no memory for it.
        ValueError: the array would have 2⁶³ or more bytes.
    """
    if kind.library == cython.NULL:
        result: ndarray = new_array(
            rank, cython.cast(cython.pointer(npy_intp), sizes), cython.cast(cnp.dtype, kind.descr)
        )
        read_ndarray(result, view)
        return result
    bytes: cython.double = kind.element
    for d in range(rank):
        # Sizes of 0 are ignored, as in NumPy.
        bytes *= max(sizes[d], 1)
    if bytes >= 9e18:
        return None
    library: Library = cython.cast(Library, kind.library)
    tensor = new_tensor(library, cython.cast(object, kind.like), rank, sizes, bytes, cython.address(view.data))
    if tensor is None or (view.data == cython.NULL and element_count(rank, sizes)):
        return None
    view.rank = rank
    view.sizes = sizes
    view.strides = view.storage
    step: int64_t = kind.element
    for d in range(rank - 1, -1, -1):
        view.storage[d] = step
        step *= sizes[d]
    return tensor


def read_output(out, kind, rank, sizes, view):
    """Read the caller's output array; returns as `read_array`, and 1 if its shape, kind or strides do not fit."""
    if read_same_kind(out, view, kind) or view.rank != rank:
        return 1
    if kind.library == cython.NULL and not cnp.PyArray_ISWRITEABLE(cython.cast(ndarray, out)):
        return 1
    reach: int64_t = kind.element
    for d in range(rank - 1, -1, -1):
        if view.sizes[d] != sizes[d]:
            return 1
        if sizes[d] > 1:
            # Other orders, and overlaps, are left to Python.
            if view.strides[d] < reach:
                return 1
            reach = view.strides[d] * sizes[d]
    return 0


def notify_written(out, kind):
    """Notify the library of an array that is about to be written."""
    if kind.library != cython.NULL:
        cython.cast(Library, kind.library).on_write((out,))
    return 0


def is_disjoint(view, element, other_view, other_element):
    """Whether the address ranges of two arrays are disjoint, or one is empty."""
    return are_disjoint(array_range(view, element), array_range(other_view, other_element))


def array_range(view, element):
    """Return the address range of an array, from its first to its last byte; empty if it has no elements."""
    bounds: Range = range_of(view.data, element, view.rank, view.sizes, view.strides)
    for d in range(view.rank):
        if view.sizes[d] == 0:
            bounds.low = bounds.high = cython.NULL
    return bounds


def numpy_dtype(kind):
    """Return the NumPy dtype of a kind's elements."""
    if kind.library == cython.NULL:
        return cython.cast(object, kind.descr)
    return cython.cast(Library, kind.library).dtypes[kind.dtype.code << 8 | kind.dtype.bits]()


def element_count(rank, sizes):
    """Return the number of elements of a shape."""
    count: int64_t = 1
    for d in range(rank):
        count *= sizes[d]
    return count
