# New arrays, and the reusable blocks of memory of large ones.
from libc.stdint cimport int64_t
from numpy cimport dtype, npy_intp

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int rank, npy_intp *shape, dtype kind, int order)

cdef extern from *:
    int leading_zeros "__builtin_clzll"(unsigned long long number) nogil

cdef enum:
    SHELVES = 256

cdef struct Block:  # the 64-byte header before a block's bytes
    Block *under    # the block below it on its shelf
    size_t size     # bytes after the header
    int64_t since   # time of its release, in nanoseconds
    int64_t shelf
    int64_t unused[4]

cdef struct Waiting:
    Block *shelves[256]  # the top block of each size
    size_t bytes         # on all shelves,
    size_t limit         # and at most
    bint is_watched      # whether a thread trims them periodically

cdef object new_array(int rank, npy_intp *shape, dtype kind)
cdef int shelf_of(size_t size) noexcept nogil
cdef size_t size_on(int shelf) noexcept nogil
cdef Block *taken(Block **first) noexcept nogil
cdef Block *surplus(size_t most, int64_t before) noexcept nogil
cdef void give(Block *block) noexcept nogil
cdef void trim(size_t most) noexcept nogil
cdef void *watch(void *nothing) noexcept nogil
cdef void *allocate(void *nothing, size_t size) noexcept nogil
cdef void *allocate_zeros(void *nothing, size_t count, size_t size) noexcept nogil
cdef void *reallocate(void *nothing, void *bytes_, size_t size) noexcept nogil
cdef void release(void *nothing, void *bytes_, size_t size) noexcept nogil
cdef void begin_child() noexcept nogil
