
cdef class Slot:
    cdef readonly int number

cdef object fill_slots(object tree, list results)
cdef bint match_slots(object tree, object out, list outputs) except -1
