# Results in the memory of arguments.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.moving cimport Move
from anydml.core.reaches cimport Reach
from anydml.core.signatures cimport Given

cdef int64_t without_staying(Move *moves, int64_t count) noexcept nogil
cdef bint mixes(const Move *moves, int64_t count, Reach given) noexcept nogil
cdef bint stays(const Move *m) noexcept nogil
cdef int fits(Given *given, object array, View *views, int k, const Kind *kind, int rank, const int64_t *n) except -1
cdef bint is_same(const View *v, const View *w) noexcept nogil
