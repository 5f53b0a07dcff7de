# Signatures of calls' arguments.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View

cdef extern from *:
    """
    #define anydml_exchange(at, by) __atomic_exchange_n(at, by, __ATOMIC_ACQ_REL)
    """
    Given *exchange "anydml_exchange"(Given **at, Given *by) noexcept nogil

cdef enum:
    ARRAYS = 4096   # most arrays of a call, including results
    KEY = 131072    # most bytes of a key
    NUMBERS = 32768 # most sizes, strides and integers

# Far more than most calls need: untouched pages take no memory.
cdef struct Given:
    int count
    int used
    int numbers
    int depth
    PyObject *arrays[4096]
    View views[4096]  # of arguments, and then of results
    Kind kinds[4096]
    char *at[8192]    # addresses of operands
    char key[131072]
    int64_t number[32768]

cdef Given *borrow() except NULL
cdef void give_back(Given *given) noexcept
cdef int put(Given *given, const void *bytes, Py_ssize_t count) noexcept
cdef int word(Given *given, char kind, int64_t value) noexcept
cdef int put_number(Given *given, int64_t value) noexcept
cdef bint is_packed(const View *v, int64_t element) noexcept nogil
cdef int see(Given *given, object item) except -1
cdef int see_array(Given *given, object item) except -1
cdef int see_all(Given *given, tuple arguments, dict keywords) except -1
