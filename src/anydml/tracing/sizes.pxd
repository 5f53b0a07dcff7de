cdef class Size:
    cdef readonly object scope, register, plus, value
