# Calls of fused functions.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.program cimport Compiled

cdef enum:
    ARRAYS = 64    # arrays of a call at most
    KEY = 4096     # bytes of what tells calls apart

cdef struct Given:
    int count
    int used
    int depth
    PyObject *arrays[64]
    View views[64]
    Kind kinds[64]
    char key[4096]

cdef class Slot:
    cdef readonly int number

cdef class Result:
    cdef int rank
    cdef int64_t n[64]
    cdef object dtype
    cdef int like

cdef class Call:
    cdef Compiled compiled
    cdef tuple constants, scratch, results
    cdef object tree
    cdef bint is_one
    cdef object run(self, Given *given, object out)
    cdef int targets(self, list found, Given *given, View *views) except -1

cdef class Calls:
    cdef dict found
    cdef int64_t bytes

cdef int put(Given *given, const void *bytes, Py_ssize_t count) noexcept
cdef int word(Given *given, char kind, int64_t value) noexcept
cdef int see(Given *given, object item) except -1
cdef int see_array(Given *given, object item) except -1
cdef int see_all(Given *given, tuple arguments, dict keywords) except -1
cdef object built(object tree, list results)
cdef bint taken(object tree, object out, list found) except -1
