# Elements put where indices point, or chosen by a mask.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View

cdef object put_into(const Kind *k, const View *x, object given, object out, const View *indices, const View *updates, View *to)
cdef int spread(const View *v, int rank, const int64_t *n, int64_t *s) noexcept nogil
