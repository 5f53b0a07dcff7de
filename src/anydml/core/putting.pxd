# Scattering by indices, and selection by a mask.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport View
from anydml.core.calls cimport Call

cdef object begin_update(Call *c, object x, object out)
cdef int spread_strides(const View *v, int rank, const int64_t *n, int64_t *s) noexcept nogil
