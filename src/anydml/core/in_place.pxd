from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.moving cimport Move
from anydml.core.ranges cimport Range
from anydml.core.signatures cimport Arguments

cdef int64_t remove_noops(Move *moves, int64_t count) noexcept nogil
cdef bint conflicts(const Move *moves, int64_t count, Range results) noexcept nogil
cdef bint is_noop(const Move *m) noexcept nogil
cdef int check_output(Arguments *arguments, object array, View *views, int k, const Kind *kind, int rank, const int64_t *n) except -1
cdef bint is_same_view(const View *v, const View *w) noexcept nogil
