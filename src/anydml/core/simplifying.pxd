from libc.stdint cimport int64_t
from anydml.core.moving cimport Move

cdef int simplify(Move *m, int rank, const int64_t *n, const int64_t *a, const int64_t *b, const int64_t **strides) noexcept nogil
cdef void copy_dimension(Move *m, int to, int source) noexcept nogil
cdef bint can_merge(const Move *m, int outer, int inner) noexcept nogil
cdef void merge_into(Move *m, int outer, int inner) noexcept nogil
cdef bint merge_dimension(Move *m, int d) noexcept nogil
cdef bint extend_move(Move *first, const Move *second, bint are_apart) noexcept nogil
