# Transposed, reversed and sliced arrays.
from libc.stdint cimport int64_t
from anydml.core.calls cimport Call

cdef int windows(int rank, const int64_t *sizes, object offsets, object lengths, object strides, int64_t *first, int64_t *step, int64_t *count) except -1
cdef object stepped(Call *c, const int64_t *first, const int64_t *step, object out)
