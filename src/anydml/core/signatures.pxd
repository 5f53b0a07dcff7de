# What calls' arguments look like.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View

cdef enum:
    ARRAYS = 64    # arrays of a call at most
    KEY = 4096     # bytes of what one trace is for
    NUMBERS = 1024 # sizes, strides and integers

cdef struct Given:
    int count
    int used
    int numbers
    int depth
    PyObject *arrays[64]
    View views[64]
    Kind kinds[64]
    char key[4096]
    int64_t number[1024]

cdef int put(Given *given, const void *bytes, Py_ssize_t count) noexcept
cdef int word(Given *given, char kind, int64_t value) noexcept
cdef int put_number(Given *given, int64_t value) noexcept
cdef bint is_packed(const View *v, int64_t element) noexcept nogil
cdef int see(Given *given, object item) except -1
cdef int see_array(Given *given, object item) except -1
cdef int see_all(Given *given, tuple arguments, dict keywords) except -1
