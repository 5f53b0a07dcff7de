# Transposed, reversed and sliced arrays.
from libc.stdint cimport int64_t
from anydml.core.calls cimport Call

cdef int read_windows(int rank, const int64_t *sizes, object offsets, object lengths, object strides, int64_t *first, int64_t *step, int64_t *count) except -1
cdef object finish_steps(Call *c, const int64_t *first, const int64_t *step, object out)
