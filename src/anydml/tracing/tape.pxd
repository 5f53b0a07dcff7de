cdef class Tape:
    cdef readonly object input_count
    cdef readonly list steps
    cdef dict _registers
    cpdef step(self, kind, a, b)
    cpdef bint has_step(self, kind, a, b)
    cpdef tuple step_of(self, register)
