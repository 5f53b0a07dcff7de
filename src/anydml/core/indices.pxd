# Conversion to index arrays, and clamping of single indices.
from libc.stdint cimport int64_t

cdef object as_indices(object given)
cdef bint resolve_index(const char *at, int type, int64_t size, int64_t *offset) noexcept nogil
