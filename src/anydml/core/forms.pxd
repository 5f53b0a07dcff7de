# Moves of all calls of a trace, whose numbers are in registers.
from anydml.core.moving cimport Move
from libc.stdint cimport int32_t, int64_t

cdef struct Pattern:
    const char *bytes
    int64_t count

cdef class Form:
    cdef int64_t *codes
    cdef int64_t used, count, lookup_count
    cdef list patterns
    cdef Move *room(self, Move *own, size_t most) except NULL
    cdef int64_t fill(self, const int64_t *found, char **at, Move *moves, int32_t *refused) noexcept nogil
    cdef Pattern *pattern

cdef bint is_fill(object source)
cdef int depth(object end)
cdef int operand(int number, int count) except -1
cdef void *new(int64_t count, size_t size) except NULL
