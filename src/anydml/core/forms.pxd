from anydml.core.moving cimport Move
from libc.stdint cimport int32_t, int64_t

cdef class Form:
    cdef int64_t *codes
    cdef int64_t code_length, count, lookup_count, size
    cdef bytearray code_bytes
    cdef list patterns
    cdef int64_t make_moves(self, const int64_t *registers, char **at, Move *moves, int32_t *refused) noexcept nogil

cdef int check_operand(int operand, int count) except -1
