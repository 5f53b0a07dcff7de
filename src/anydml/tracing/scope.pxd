from anydml.tracing.open_sizes cimport OpenSize as OpenSizeType
from anydml.tracing.tape cimport Tape as Steps

cdef class Scope:
    cdef readonly Steps tape
    cdef readonly dict pins
    cdef readonly dict longs
    cdef public bint is_typed
    cdef dict _low, _high, _extremes
    cpdef variable(self, argument_number, value, min_value=*)
    cpdef register(self, size)
    cpdef sum(self, OpenSizeType x, OpenSizeType y)
    cpdef difference(self, OpenSizeType x, OpenSizeType y)
    cdef _known_difference(self, OpenSizeType x, OpenSizeType y)
    cpdef multiply_by_constant(self, OpenSizeType size, factor)
    cdef tuple _scaled(self, register)
    cpdef product(self, x, y)
    cpdef quotient(self, dividend, by)
    cpdef extreme_of_two(self, x, y, bint is_minimum)
    cdef OpenSizeType _extreme(self, first, second, bint is_minimum)
    cdef bint _comes_before(self, x, y) except -1
    cdef _note_bounds(self, register, low, high)
    cdef tuple _bounds(self, size)
    cdef bint _is_at_least(self, x, y) except -1
    cpdef is_zero(self, OpenSizeType size)
    cpdef is_negative(self, OpenSizeType size)
    cpdef type_of(self, size)
    cpdef is_known(self, OpenSizeType size)
    cpdef pin(self, OpenSizeType size, why=*)

cdef _value(size)
cdef _extreme_of_known(bound, other, bint is_minimum)
cdef _extreme_of_any(bound, other, bint is_minimum)
