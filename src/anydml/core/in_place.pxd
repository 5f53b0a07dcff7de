# Moves in the memory of an argument.
from libc.stdint cimport int64_t
from anydml.core.moving cimport Move
from anydml.core.reaches cimport Reach

cdef int64_t without_staying(Move *moves, int64_t count) noexcept nogil
cdef bint mixes(const Move *moves, int64_t count, Reach given) noexcept nogil
cdef bint stays(const Move *m) noexcept nogil
