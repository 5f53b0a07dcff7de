cdef class OpenSize:
    cdef readonly object scope, register, addend, traced_value
