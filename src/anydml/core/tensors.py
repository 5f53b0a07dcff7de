# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""PyTorch's tensors in host memory, by DLPack's table of C functions."""

import cython
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_IsValid
from cython.cimports.cpython.ref import Py_INCREF, PyObject
from cython.cimports.cpython.tuple import PyTuple_New, PyTuple_SET_ITEM
from cython.cimports.libc.stdint import int64_t

HOST = 1
FLOAT = 2
"""DLPack's numbers for host memory and for floating-point elements."""

LARGE = 4 << 20
"""Bytes of arrays for which larger pages are asked for."""

LIBRARIES = {}
"""By the arrays' types."""


class Library:
    """How arrays of some types are read, made and written.

    Args:
        capsule: the library's table.
        kind: the type of the arrays.
        is_traced: whether calls are recorded now rather than run, or tensors have more than their memory.
        written: told of arrays that are to be written.
        large: told of new arrays of `LARGE` bytes and more.
        dtypes: NumPy's, by 256 · DLPack's code + bits.
    """

    def __init__(self, capsule, kind, is_traced, written, large, dtypes):
        self.capsule = capsule
        self.api = cython.cast(cython.pointer(cython.const[Api]), PyCapsule_GetPointer(capsule, b"dlpack_exchange_api"))
        self.is_traced = is_traced
        self.written = written
        self.large = large
        self.dtypes = dtypes
        self.is_negative, self.storage_of, self.offset_of = kind.is_neg, kind.untyped_storage, kind.storage_offset
        for number in dtypes:
            self.known[number >> 8][(number & 255) >> 3] = True


def know(types, is_traced, written, large, dtypes):
    """Have calls on arrays of some types done in compiled code, if their library has DLPack's table.

    Args:
        types: of the arrays; those of types derived from them are left to Python.
        is_traced: see `Library`.
        written: likewise.
        large: likewise.
        dtypes: likewise; arrays of other dtypes are left to Python.
    """
    capsule = getattr(types[0], "__dlpack_c_exchange_api__", None)
    if capsule is None or not PyCapsule_IsValid(capsule, b"dlpack_exchange_api"):
        return
    library: Library = Library(capsule, types[0], is_traced, written, large, dtypes)
    if library.api.major == 1:
        LIBRARIES.update(dict.fromkeys(types, library))


def library_of(x):
    """The library of an array; None where it is left to Python."""
    return LIBRARIES.get(type(x))


def look_at(library, x, found):
    """An array as it lies; returns 1 where Python has to look at it."""
    d: cython.int
    if library.api.look(cython.cast(cython.p_void, cython.cast(cython.pointer(PyObject), x)), found):
        # It has no memory; what it says of that Python asks again.
        clear_error()
        return 1
    if found.device != HOST or found.ndim > 64 or found.dtype.lanes != 1:
        return 1
    if found.dtype.code > 7 or found.dtype.bits > 64 or found.dtype.bits & 7:
        return 1
    if not library.known[found.dtype.code][found.dtype.bits >> 3]:
        return 1
    last: int64_t = 0
    for d in range(found.ndim):
        if found.shape[d] == 0:
            last = -1
            break
        last += (found.shape[d] - 1) * found.strides[d]
    if last >= 0 and found.data == cython.NULL:
        return 1
    # A record of gradients, a lazy sign, which only floats have, and a storage that was made smaller are not in the
    # table.
    if x.requires_grad or (found.dtype.code == FLOAT and library.is_negative(x)):
        return 1
    if last < 0:
        return 0
    held: cython.Py_ssize_t = len(library.storage_of(x))
    offset: int64_t = library.offset_of(x)
    return (offset + last + 1) * (found.dtype.bits >> 3) > held


def new_tensor(library, like, rank, n, bytes, data):
    """A new packed tensor of the library's own making, which may be resized; None where there are none now."""
    found: DLTensor
    d: cython.int
    shape: tuple = PyTuple_New(rank)
    for d in range(rank):
        size: object = n[d]
        Py_INCREF(size)
        PyTuple_SET_ITEM(shape, d, size)
    # Sizes one by one are read in less time than a list of them.
    made = like.new_empty(*shape) if rank else like.new_empty(shape)
    if library_of(made) is not library:
        # A mode's, or a transform's.
        return None
    if library.api.look(cython.cast(cython.p_void, cython.cast(cython.pointer(PyObject), made)), cython.address(found)):
        clear_error()
        return None
    data[0] = cython.cast(cython.p_char, found.data) + found.byte_offset
    if bytes >= LARGE:
        library.large(made, bytes)
    return made
