# Parsing of integers, axes and strings among a call's arguments.
from libc.stdint cimport int64_t

cdef extern from "numpy/arrayobject.h":
    bint PyArray_IsIntegerScalar(object x)

# Normalize a possibly negative axis to 0 to rank - 1; returns 1 if it is out of range.
cdef inline bint normalize_axis(int64_t *axis, int rank) noexcept nogil:
    if axis[0] < -rank or axis[0] >= rank:
        return 1
    if axis[0] < 0:
        axis[0] += rank
    return 0

cdef int read_ints(object given, int64_t *found, int most) except -2
cdef int read_int(object given, int64_t *found) except -1
cdef int read_single_int(object given, int64_t *found) except -1
cdef int read_axis(object given, int rank, int64_t *axis) except -1
cdef int mark_axes(object axes, int rank, bint *along) except -1
cdef bint is_str(object given) noexcept
cdef bint fits_product(int64_t n, int64_t times) noexcept nogil
