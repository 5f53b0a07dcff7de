from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View

cdef extern from *:
    """
    #define anydml_exchange(at, by) __atomic_exchange_n(at, by, __ATOMIC_ACQ_REL)
    """
    Arguments *exchange "anydml_exchange"(Arguments **at, Arguments *by) noexcept nogil

cdef enum:
    ARRAYS = 4096   # most arrays of a call, including results
    KEY = 131072    # most bytes of a key
    NUMBERS = 32768 # most sizes, strides and integers
    OBJECTS = 4096  # most other arguments, and types of structures

# Far more than most calls need: untouched pages take no memory.
cdef struct Arguments:
    int count
    int key_length
    int pattern_length
    int number_count
    int depth
    int object_count
    int integer_count # Python's integers, and NumPy's of 64 bits
    int longs         # whether some are NumPy's
    int naming
    PyObject *arrays[4096]
    View views[4096]  # of arguments, and then of results
    Kind kinds[4096]
    char *at[8192]    # addresses of operands
    char key[131072]
    char pattern[262144]
    int64_t numbers[32768]
    char is_long[32768] # whether each of these integers is NumPy's
    PyObject *objects[4096]

cdef Arguments *borrow_buffer() except NULL
cdef void return_buffer(Arguments *buffer) noexcept
cdef int append_bytes(Arguments *buffer, const void *bytes, Py_ssize_t count) noexcept
cdef int append_word(Arguments *buffer, char tag, int64_t value) noexcept
cdef int append_choice(Arguments *buffer, char tag, int64_t value) noexcept
cdef bint is_named(const Arguments *buffer) noexcept nogil
cdef int append_named(Arguments *buffer, char tag, const void *bytes, Py_ssize_t count) noexcept
cdef int append_object(Arguments *buffer, char tag, object item) noexcept
cdef bint is_plain(object class_) except -1
cdef int append_number(Arguments *buffer, int64_t value) noexcept
cdef int append_integer(Arguments *buffer, int64_t value, bint is_long) noexcept
cdef bint is_packed(const View *v, int first, int64_t element) noexcept nogil
cdef int read_item(Arguments *buffer, object item) except -1
cdef int read_item_array(Arguments *buffer, object item) except -1
cdef int read_arguments(Arguments *buffer, tuple arguments, dict keywords) except -1
