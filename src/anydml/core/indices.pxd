# Indices: arrays of integers, and whether they lie on their axes.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport View

cdef object as_indices(object given)
cdef bint are_row_inside(const char *at, int type, int64_t step, int64_t n, int64_t size) noexcept nogil
cdef bint are_inside(const View *v, int type, int64_t size) noexcept nogil
cdef bint is_inside(const char *at, int type, int64_t size) noexcept nogil
cdef bint are_coordinates_inside(const View *v, int type, const int64_t *sizes) noexcept nogil
cdef void place(const char *at, int type, int64_t size, int64_t *offset) noexcept nogil
cdef bint are_accepted(object word, object other, const View *v, int type, const int64_t *sizes, bint are_coordinates) except -1
