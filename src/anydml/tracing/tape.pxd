cdef class Tape:
    cdef readonly object input_count
    cdef readonly list steps
    cdef dict _found
    cpdef step(self, kind, a, b)
    cpdef bint has(self, kind, a, b)
    cpdef tuple of(self, register)
