# One array in another order, direction, place or number.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View

cdef object moved(const Kind *k, const View *x, object out, int rank, const int64_t *n, const char *source, const int64_t *b)
cdef int axis_of(object given, int rank, int64_t *axis) except -1
cdef int marked(object axes, int rank, bint *along) except -1
cdef object result(const Kind *k, const View *x, object out, int rank, const int64_t *n, View *v)
cdef bint is_product(int64_t n, int64_t times) noexcept nogil
