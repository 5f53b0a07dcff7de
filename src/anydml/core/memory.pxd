# New arrays, and the blocks that large ones lie in.
from numpy cimport dtype, npy_intp

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int rank, npy_intp *shape, dtype kind, int order)

cdef object new_array(int rank, npy_intp *shape, dtype kind)
cdef int shelf_of(size_t size) noexcept nogil
cdef size_t size_on(int shelf) noexcept nogil
cdef void trim(size_t most) noexcept nogil
cdef void *watch(void *nothing) noexcept nogil
cdef void *allocate(void *nothing, size_t size) noexcept nogil
cdef void *allocate_zeros(void *nothing, size_t count, size_t size) noexcept nogil
cdef void *reallocate(void *nothing, void *bytes_, size_t size) noexcept nogil
cdef void release(void *nothing, void *bytes_, size_t size) noexcept nogil
cdef void begin_child() noexcept nogil
