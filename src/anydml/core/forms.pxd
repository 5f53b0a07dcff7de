# Moves of every call of a trace: their numbers stand in registers.
from anydml.core.moving cimport Lookup, Move
from libc.stdint cimport int32_t, int64_t

cdef struct Pattern:
    const char *bytes
    int64_t count

cdef class Form:
    cdef int64_t *codes
    cdef int64_t used, count, lookup_count
    cdef list patterns
    cdef int64_t fill(self, const int64_t *found, char **at, Move *moves, Lookup *lookups, int32_t *refused) noexcept nogil
    cdef Pattern *pattern
