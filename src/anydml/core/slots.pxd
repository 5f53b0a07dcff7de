# Structures with slots for results.

cdef class Slot:
    cdef readonly int number

cdef object built(object tree, list results)
cdef bint taken(object tree, object out, list found) except -1
