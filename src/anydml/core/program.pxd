# Programs as C structs: packed once, bound to operands, and run any number of times.
from anydml.core.moving cimport Lookup, Move
from libc.stdint cimport int32_t, int64_t

cdef class Compiled:
    cdef Move *moves
    cdef Lookup *lookups
    cdef int32_t *written   # operands: of every move's destination,
    cdef int32_t *read      # its source, −1 for a pattern,
    cdef int32_t *looked    # and of every lookup
    cdef int64_t count, lookup_count
    cdef int operand_count
    cdef list patterns, refusing
    cdef int place(self, char **at, Move *moves, Lookup *lookups) except -1
    cdef int pack(self, object move) except -1
    cdef int pack_end(self, Move *m, object lookups, int into) except -1

cdef class Bound:
    cdef Compiled compiled
    cdef Move *moves
    cdef Lookup *lookups
    cdef tuple operands, watching
    cdef object outside, read_only
    cdef bint refuses
    cdef int check_indices(self) except -1

cdef bint is_fill(object source)
cdef int depth(object end)
cdef int operand(int number, int count) except -1
cdef void *new(int64_t count, size_t size) except NULL
cdef int64_t number(const char *at) noexcept
cdef char *address(object array) except? NULL
