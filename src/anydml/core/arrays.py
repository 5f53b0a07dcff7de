"""What a call is given, read where it lies, and what it gives: whatever is unusual is left to Python."""

import cython
from cython.cimports.anydml.core.memory import new_array
from cython.cimports.anydml.core.reaches import Reach, are_apart, reach_of
from cython.cimports.anydml.core.tensors import (
    DLTensor,
    DType,
    Library,
    is_left_to_python,
    library_of,
    look_at,
    new_tensor,
)
from cython.cimports.cpython.ref import PyObject
from cython.cimports.libc.stdint import int64_t
from cython.cimports.numpy import (
    PyArray_BYTES,
    PyArray_CheckExact,
    PyArray_DIMS,
    PyArray_ISALIGNED,
    PyArray_ISWRITEABLE,
    PyArray_ITEMSIZE,
    PyArray_NDIM,
    PyArray_STRIDES,
    dtype,
    import_array,
    ndarray,
    npy_intp,
)

import_array()


def look(x, v):
    """A NumPy array as it lies."""
    v.data = PyArray_BYTES(x)
    v.rank = PyArray_NDIM(x)
    v.n = cython.cast(cython.pointer(cython.const[int64_t]), PyArray_DIMS(x))
    v.s = cython.cast(cython.pointer(cython.const[int64_t]), PyArray_STRIDES(x))


def read(x, v, k):
    """The first array of a call, which says of what kind the others and the results are.

    Returns:
        0, or 1 where Python has to look at it: it is no array, or its elements are references.
    """
    k.library = cython.NULL
    if not PyArray_CheckExact(x):
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
    k.element = PyArray_ITEMSIZE(array)
    look(array, v)
    # NumPy makes strings of no letters one letter long.
    return 0 if k.element else 1


def read_alike(x, v, k):
    """Another array of the same kind; returns as `read`, also where its dtype is another."""
    dtype: DType
    if k.library != cython.NULL:
        if PyArray_CheckExact(x) or read_beside(x, k, v, cython.address(dtype)):
            return 1
        return dtype.code != k.dtype.code or dtype.bits != k.dtype.bits
    if not PyArray_CheckExact(x):
        return 1
    array: ndarray = cython.cast(ndarray, x)
    if not is_alike(array, k.descr):
        return 1
    look(array, v)
    return 0


def read_beside(x, k, v, dtype):
    """An array of any dtype beside the first one: NumPy's, or of the same library; returns as `read`."""
    if not PyArray_CheckExact(x):
        if k.library == cython.NULL:
            return 1
        library: Library = cython.cast(Library, k.library)
        if type(x) is not type(cython.cast(object, k.like)) and library_of(x) is not library:
            return 1
        return read_tensor(x, library, v, dtype)
    kind: cython.char = description(x).kind
    dtype.bits = 8 * PyArray_ITEMSIZE(x)
    dtype.code = BOOL if kind == ord("b") else NO_CODE
    if description(x).byteorder != ord(">") and PyArray_ISALIGNED(x) and (kind == ord("i") or kind == ord("u")):
        dtype.code = INTEGER if kind == ord("i") else UNSIGNED
    look(x, v)
    return 0


def read_tensor(x, library, v, dtype):
    """An array of another library; returns as `read`."""
    found: DLTensor
    d: cython.int
    if look_at(library, x, cython.address(found)):
        return 1
    dtype[0] = found.dtype
    v.data = cython.cast(cython.p_char, found.data) + found.byte_offset
    v.rank = found.ndim
    v.n = found.shape
    v.units = found.strides
    v.s = v.own
    for d in range(found.ndim):
        v.own[d] = found.strides[d] * (found.dtype.bits >> 3)
    return 0


def read_indices(x, k, v, type):
    """An array of indices, of a kind or NumPy's, and their type as a lookup has it; returns as `read`."""
    dtype: DType
    if read_beside(x, k, v, cython.address(dtype)) or dtype.code > UNSIGNED or (dtype.bits != 32 and dtype.bits != 64):
        return 1
    type[0] = (dtype.bits >> 3) * (1 if dtype.code == UNSIGNED else -1)
    return 0


def read_mask(x, k, v):
    """An array of bools, or of 8-bit integers, of a kind or NumPy's; returns as `read`."""
    dtype: DType
    if read_beside(x, k, v, cython.address(dtype)):
        return 1
    return dtype.bits != 8 or (dtype.code > UNSIGNED and dtype.code != BOOL)


def make(k, rank, n, v):
    """A new packed array of this kind; None where there is no memory for it."""
    d: cython.int
    if k.library == cython.NULL:
        try:
            made: ndarray = new_array(rank, cython.cast(cython.pointer(npy_intp), n), cython.cast(dtype, k.descr))
        except (MemoryError, ValueError):
            return None
        look(made, v)
        return made
    bytes: cython.double = k.element
    for d in range(rank):
        # Sizes of 0 do not count, as NumPy has it.
        bytes *= max(n[d], 1)
    if bytes >= 9e18:
        return None
    library: Library = cython.cast(Library, k.library)
    tensor = new_tensor(library, cython.cast(object, k.like), rank, n, bytes, cython.address(v.data))
    if tensor is None or (v.data == cython.NULL and elements(rank, n)):
        return None
    v.rank = rank
    v.n = n
    v.s = v.own
    step: int64_t = k.element
    for d in range(rank - 1, -1, -1):
        v.own[d] = step
        step *= n[d]
    return tensor


def target(out, k, rank, n, v):
    """The caller's array of this shape and kind, to be written; returns as `read`, also where it does not fit."""
    d: cython.int
    if read_alike(out, v, k) or v.rank != rank:
        return 1
    if k.library == cython.NULL and not PyArray_ISWRITEABLE(cython.cast(ndarray, out)):
        return 1
    reach: int64_t = k.element
    for d in range(rank - 1, -1, -1):
        if v.n[d] != n[d]:
            return 1
        if n[d] > 1:
            # In any other order, or with overlaps, Python looks closer.
            if v.s[d] < reach:
                return 1
            reach = v.s[d] * n[d]
    return 0


def tell(out, k):
    """Have the library of an array that is going to be written know it."""
    if k.library != cython.NULL:
        cython.cast(Library, k.library).written((out,))
    return 0


def apart(v, element, w, other):
    """Whether the bytes from the first to the last of two arrays are others, or one has none."""
    return are_apart(reach(v, element), reach(w, other))


def reach(v, element):
    """The bytes from the first to the last of an array: none, which are apart from all others, where it has none."""
    found: Reach = reach_of(v.data, element, v.rank, v.n, v.s)
    d: cython.int
    for d in range(v.rank):
        if v.n[d] == 0:
            found.low = found.high = cython.NULL
    return found


def packing(k):
    """NumPy's dtype for the elements of arrays of a kind."""
    if k.library == cython.NULL:
        return cython.cast(object, k.descr)
    return cython.cast(Library, k.library).dtypes[k.dtype.code << 8 | k.dtype.bits]


def elements(rank, n):
    """How many elements a shape has."""
    found: int64_t = 1
    d: cython.int
    for d in range(rank):
        found *= n[d]
    return found
