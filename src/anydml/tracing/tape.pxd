cdef class Tape:
    cdef readonly object input_count
    cdef readonly list steps
    cdef dict _registers
    cpdef step(self, operation, a, b)
    cpdef bint has_step(self, operation, a, b)
    cpdef tuple step_of(self, register)
