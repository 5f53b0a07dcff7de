# Indices that may not be outside of their axes.
from anydml.core.moving cimport Lookup, Move
from libc.stdint cimport int64_t

cdef const char *first_outside(Move *m, int number) noexcept nogil
cdef bint index_of(const Lookup *lookup, const char *at, int64_t *offset) noexcept nogil
cdef const char *place_of(Move *m, int number, bint *counts, int64_t *c) noexcept nogil
cdef bint are_plain(const Move *m, int number, const bint *counts) noexcept nogil
cdef bint are_all_inside(const Move *m, int number) noexcept nogil
