# Rolling, repeating, and blocks of pixels.
from libc.stdint cimport int64_t
from anydml.core.calls cimport Call

cdef object finish_pairs(Call *c, int rank, object out)
cdef object repeat_each(Call *c, const int64_t *times, object out)
cdef object rearrange_blocks(object x, object block_size, object order, bint to_space, object out)
cdef void depth_strides(const int64_t *s, int64_t block, int64_t channels, bint blocks_first, int64_t *found) noexcept nogil
cdef void space_strides(const int64_t *s, int64_t block, int64_t *found) noexcept nogil
