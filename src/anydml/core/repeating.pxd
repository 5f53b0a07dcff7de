# One array to several places, or around.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View

cdef object in_pairs(const Kind *k, const View *v, int rank, const int64_t *box, const int64_t *b, object out)
cdef object several(const Kind *k, const View *v, const int64_t *times, object out)
cdef object blocks(object x, object block_size, object order, bint to_space, object out)
cdef void of_depth(const int64_t *s, int64_t block, int64_t channels, bint blocks_first, int64_t *found) noexcept nogil
cdef void of_space(const int64_t *s, int64_t block, int64_t *found) noexcept nogil
