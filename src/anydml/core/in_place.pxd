# Moves in the memory of an argument.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport View
from anydml.core.moving cimport Move

cdef struct Span:
    int64_t low
    int64_t high

cdef void widen(Span *span, const View *v, int64_t element) noexcept nogil
cdef int64_t without_staying(Move *moves, int64_t count) noexcept nogil
cdef bint mixes(const Move *moves, int64_t count, Span given) noexcept nogil
cdef bint stays(const Move *m) noexcept nogil
cdef bint meets(const Move *m, const Move *other) noexcept nogil
cdef Span writes(const Move *m) noexcept nogil
cdef Span reads(const Move *m) noexcept nogil
cdef Span spanned(const Move *m, const char *first, const int64_t *strides, int into) noexcept nogil
cdef void add_lookups(Span *span, const Move *m, int into) noexcept nogil
cdef void add(Span *span, int64_t reach) noexcept nogil
cdef bint meet(Span span, Span other) noexcept nogil
