from anydml.moves.value cimport Value as LazyValue

cdef class TracedFields:
    cdef readonly object trace
    cdef public LazyValue value
    cdef readonly object element, like
    cpdef new_array(self, LazyValue value)
