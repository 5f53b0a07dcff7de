from anydml.tracing.sizes cimport Size as OpenSize
from anydml.tracing.tape cimport Tape as Steps

cdef class Scope:
    cdef readonly Steps tape
    cdef readonly dict pins
    cdef dict _low, _high
    cpdef variable(self, number, value, min_value=*)
    cpdef register(self, size)
    cpdef sum(self, OpenSize x, OpenSize y)
    cpdef difference(self, OpenSize x, OpenSize y)
    cdef _known_difference(self, OpenSize x, OpenSize y)
    cpdef times(self, OpenSize size, factor)
    cdef tuple _scaled(self, register)
    cpdef product(self, x, y)
    cpdef quotient(self, dividend, by)
    cdef OpenSize _extreme(self, x, y, is_least)
    cdef _note_bounds(self, register, low, high)
    cdef tuple _bounds(self, size)
    cdef bint _is_at_least(self, x, y) except -1
    cpdef is_zero(self, OpenSize size)
    cpdef is_negative(self, OpenSize size)
    cpdef is_known(self, OpenSize size)
    cpdef pinned(self, OpenSize size, why=*)
