from libc.stdint cimport int64_t
from numpy cimport dtype, npy_intp

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int rank, npy_intp *shape, dtype kind, int order)

cdef extern from *:
    int leading_zeros "__builtin_clzll"(unsigned long long number) nogil

cdef enum:
    SIZE_CLASSES = 256

cdef struct Block:  # the 64-byte header before a block's bytes
    Block *next          # in its list
    size_t size          # bytes after the header
    int64_t released_at  # in nanoseconds
    int64_t size_class
    int64_t unused[4]

cdef struct Cache:
    Block *free_lists[256]  # the top block of each size class
    size_t bytes            # in all lists,
    size_t limit            # and at most
    bint has_trimmer        # whether a thread trims them periodically

cdef object new_array(int rank, npy_intp *shape, dtype kind)
cdef int size_class(size_t size) noexcept nogil
cdef size_t class_size(int number) noexcept nogil
cdef void move_block(Block **first, Block **to) noexcept nogil
cdef void trim(bint is_all, int64_t before) noexcept nogil
cdef void *trim_periodically(void *unused) noexcept nogil
cdef void *allocate(void *unused, size_t size) noexcept nogil
cdef void *allocate_zeros(void *unused, size_t count, size_t size) noexcept nogil
cdef void *reallocate(void *unused, void *bytes_, size_t size) noexcept nogil
cdef void release(void *unused, void *bytes_, size_t size) noexcept nogil
cdef void reset_in_child() noexcept nogil
