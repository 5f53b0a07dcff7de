"""PyTorch's tensors in host memory, read by DLPack's table of C functions."""

import cython
from cython.cimports.anydml.core.pages import advise_huge
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_IsValid

HOST = 1
"""DLPack's code for host memory."""

COMPLEX = 5
"""DLPack's code for complex elements."""

HUGE_PAGES_FROM = 4 << 20
"""Bytes of an array from which huge pages are requested, as in NumPy."""

LOWEST_ADDRESS = 1 << 32
"""The lowest address of memory, in practice."""

LIBRARIES = {}
"""Libraries by the types of their arrays."""


class Library:
    """Functions to read, make and write arrays of some types.

    Args:
        capsule: the library's table.
        kind: the type of the arrays.
        queries: functions that all return False unless calls are being recorded or watched.
        states: a module's variables, a name among them, and its usual value: any other means that calls are being
            recorded, or tensors are more than their memory.
        on_write: called with a tuple of arrays that are about to be written.
        dtypes: functions that return NumPy's, by 256 · DLPack's code + bits.
        from_lengths: makes an array of NumPy's 64-bit integers, in memory of its own.
    """

    def __init__(self, capsule, kind, queries, states, on_write, dtypes, from_lengths):
        self.capsule = capsule
        self.api = cython.cast(cython.pointer(cython.const[Api]), PyCapsule_GetPointer(capsule, b"dlpack_exchange_api"))
        self.queries = queries
        self.states = states
        self.on_write = on_write
        self.dtypes = dtypes
        self.from_lengths = from_lengths
        self.requires_grad, self.new_empty = kind.requires_grad, kind.new_empty
        self.is_negative, self.is_conjugate = kind.is_neg, kind.is_conj
        for dtype_number in dtypes:
            self.known[dtype_number >> 8][(dtype_number & 255) >> 3] = True


def register(types, *functions):
    """Register types of arrays for compiled calls, if their library exports DLPack's table.

    Args:
        types: the types of the arrays; subclasses are left to Python, as are dtypes that the library does not name.
        functions: `queries` and what follows in `Library`.
    """
    capsule = getattr(types[0], "__dlpack_c_exchange_api__", None)
    if capsule is None or not PyCapsule_IsValid(capsule, b"dlpack_exchange_api"):
        return
    library: Library = Library(capsule, types[0], *functions)
    if library.api.major == 1:
        LIBRARIES.update(dict.fromkeys(types, library))


def library_of(x):
    """Return the library of an array; None if it is left to Python."""
    return LIBRARIES.get(type(x))


def is_left_to_python(library):
    """Whether calls are being recorded rather than run, or watched, or arrays are more than their memory."""
    for ask in library.queries:
        if ask():
            return True
    variables: dict
    for variables, name, usual in library.states:
        if variables[name] is not usual:
            return True
    return False


def read_dltensor(library, x, described):
    """Read an array's memory and layout; returns 1 to fall back to Python."""
    if library.api.to_dltensor(cython.cast(cython.p_void, cython.cast(cython.pointer(PyObject), x)), described):
        # The tensor has no memory; Python raises the error.
        clear_error()
        return 1
    if described.device != HOST or described.ndim > 64 or described.dtype.lanes != 1:
        return 1
    if described.dtype.code > 7 or described.dtype.bits > 128 or described.dtype.bits & 7:
        return 1
    if not library.known[described.dtype.code][described.dtype.bits >> 3]:
        return 1
    if cython.cast(cython.size_t, described.data) < LOWEST_ADDRESS:
        for d in range(described.ndim):
            if described.shape[d] == 0:
                break
        else:
            # The tensor's storage was freed: the address is an offset from a null pointer.
            return 1
    # The table reports neither recorded gradients nor lazy negation and conjugation.
    if attribute_is_true(library.requires_grad, x) or library.is_negative(x):
        return 1
    return 1 if described.dtype.code == COMPLEX and library.is_conjugate(x) else 0


def new_tensor(library, like, rank, n, bytes, data):
    """Return a new packed tensor made by the library, which can be resized; None to fall back to Python."""
    described: DLTensor
    parameters: cython.pointer(PyObject)[65]
    sizes: list = []
    parameters[0] = cython.cast(cython.pointer(PyObject), like)
    for d in range(rank):
        sizes.append(n[d])
        parameters[d + 1] = cython.cast(cython.pointer(PyObject), sizes[d])
    # PyTorch parses separate sizes faster than a list of sizes.
    tensor = call(library.new_empty, parameters, rank + 1, cython.NULL) if rank else library.new_empty(like, ())
    if library_of(tensor) is not library:
        # Made by a mode or a transform.
        return None
    if library.api.to_dltensor(
        cython.cast(cython.p_void, cython.cast(cython.pointer(PyObject), tensor)), cython.address(described)
    ):
        clear_error()
        return None
    data[0] = cython.cast(cython.p_char, described.data) + described.byte_offset
    if bytes >= HUGE_PAGES_FROM:
        advise_huge(data[0], cython.cast(cython.size_t, bytes))
    return tensor
