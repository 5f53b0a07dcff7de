from libc.stdint cimport int64_t
from anydml.core.arrays cimport View
from anydml.core.calls cimport Call

cdef object TO_END
cdef int broadcast_strides(const View *v, int rank, const int64_t *n, int64_t *s) noexcept nogil
cdef int read_windows(int rank, const int64_t *sizes, object offsets, object lengths, object strides, int64_t *first, int64_t *step, int64_t *count) except -1
cdef void set_dimension(Call *c, int d, int64_t size, int64_t stride) noexcept nogil
cdef object finish_merged(Call *c, object out, int rank, const char *each)
cdef object repeat_each(Call *c, const int64_t *times, object out)
cdef object rearrange_blocks(object x, object block_size, object order, bint to_space, object out)
