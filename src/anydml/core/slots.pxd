# Structures with the places of results in them.

cdef class Slot:
    cdef readonly int number

cdef object built(object tree, list results)
cdef bint taken(object tree, object out, list found) except -1
