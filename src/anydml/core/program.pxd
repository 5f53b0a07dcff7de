from anydml.core.forms cimport Form
from anydml.core.moving cimport Move
from libc.stdint cimport int64_t

cdef class Compiled:
    cdef Form form
    cdef bytes number_bytes
    cdef int64_t *numbers
    cdef bytearray memory
    cdef Move *moves
    cdef int64_t count
    cdef int operand_count

cdef class Bound:
    cdef Compiled compiled
    cdef bytearray memory
    cdef Move *moves
    cdef int64_t count
    cdef tuple operands, written_arrays
    cdef list refusing
    cdef object on_invalid_index, read_only
    cdef int check_indices(self) except -1

cdef int64_t make_moves(Compiled compiled, list addresses, Move *moves) except -2
cdef char *address(object array) except? NULL
