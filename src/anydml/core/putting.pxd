from anydml.core.calls cimport Call

cdef object begin_update(Call *c, object x, object out)
