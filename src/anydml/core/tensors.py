"""PyTorch's tensors in host memory, by DLPack's table of C functions."""

import cython
from cython.cimports.anydml.core.pages import ask_for_huge
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_IsValid
from cython.cimports.cpython.ref import PyObject

HOST = 1
FLOAT = 2
"""DLPack's numbers for host memory and for floating-point elements."""

LARGE = 4 << 20
"""Bytes of arrays for which huge pages are asked for, as NumPy does."""

LOWEST = 1 << 32
"""Where memory begins, as a rule."""

LIBRARIES = {}
"""By the arrays' types."""


class Library:
    """How arrays of some types are read, made and written.

    Args:
        capsule: the library's table.
        kind: the type of the arrays.
        questions: all are answered by no unless calls are recorded now, or somebody watches them.
        states: modules' variables, a name in each, and what that is unless calls are recorded, or tensors have more
            than their memory.
        written: told of arrays that are to be written.
        dtypes: NumPy's, by 256 · DLPack's code + bits.
    """

    def __init__(self, capsule, kind, questions, states, written, dtypes):
        self.capsule = capsule
        self.api = cython.cast(cython.pointer(cython.const[Api]), PyCapsule_GetPointer(capsule, b"dlpack_exchange_api"))
        self.questions = questions
        self.states = states
        self.written = written
        self.dtypes = dtypes
        self.requires_grad, self.is_negative, self.new_empty = kind.requires_grad, kind.is_neg, kind.new_empty
        for number in dtypes:
            self.known[number >> 8][(number & 255) >> 3] = True


def know(types, questions, states, written, dtypes):
    """Have calls on arrays of some types done in compiled code, if their library has DLPack's table.

    Args:
        types: of the arrays; those of types derived from them are left to Python.
        questions: see `Library`.
        states: likewise.
        written: likewise.
        dtypes: likewise; arrays of other dtypes are left to Python.
    """
    capsule = getattr(types[0], "__dlpack_c_exchange_api__", None)
    if capsule is None or not PyCapsule_IsValid(capsule, b"dlpack_exchange_api"):
        return
    library: Library = Library(capsule, types[0], questions, states, written, dtypes)
    if library.api.major == 1:
        LIBRARIES.update(dict.fromkeys(types, library))


def library_of(x):
    """The library of an array; None where it is left to Python."""
    return LIBRARIES.get(type(x))


def is_left_to_python(library):
    """Whether calls are recorded now rather than run, or watched, or arrays have more than their memory."""
    for ask in library.questions:
        if ask():
            return True
    variables: dict
    for variables, name, usual in library.states:
        if variables[name] is not usual:
            return True
    return False


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
    if cython.cast(cython.size_t, found.data) < LOWEST:
        for d in range(found.ndim):
            if found.shape[d] == 0:
                break
        else:
            # Its storage was freed, and this is an offset from nowhere.
            return 1
    # The table says nothing of records of gradients, nor of lazy signs.
    return records(library.requires_grad, x) or (
        found.dtype.code == FLOAT and has_even_strides(found) and library.is_negative(x)
    )


def has_even_strides(found):
    """Whether an array may be the imaginary parts of others: only those have a lazy sign."""
    d: cython.int
    for d in range(found.ndim):
        if found.shape[d] > 1 and found.strides[d] & 1:
            return False
    return True


def new_tensor(library, like, rank, n, bytes, data):
    """A new packed tensor of the library's own making, which may be resized; None where there are none now."""
    found: DLTensor
    d: cython.int
    given: cython.pointer(PyObject)[65]
    sizes: list = []
    given[0] = cython.cast(cython.pointer(PyObject), like)
    for d in range(rank):
        sizes.append(n[d])
        given[d + 1] = cython.cast(cython.pointer(PyObject), sizes[d])
    # Sizes one by one are read in less time than a list of them.
    made = call(library.new_empty, given, rank + 1, cython.NULL) if rank else library.new_empty(like, ())
    if library_of(made) is not library:
        # A mode's, or a transform's.
        return None
    if library.api.look(cython.cast(cython.p_void, cython.cast(cython.pointer(PyObject), made)), cython.address(found)):
        clear_error()
        return None
    data[0] = cython.cast(cython.p_char, found.data) + found.byte_offset
    if bytes >= LARGE:
        ask_for_huge(data[0], cython.cast(cython.size_t, bytes))
    return made
