# Calls of fused functions.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.program cimport Compiled
from anydml.core.signatures cimport Given

cdef class Slot:
    cdef readonly int number

cdef class Result:
    cdef int rank
    cdef int64_t n[64]
    cdef object dtype
    cdef int like

cdef class Call:
    cdef Compiled compiled
    cdef tuple constants, scratch, results
    cdef object tree
    cdef bint is_one
    cdef object run(self, Given *given, object out)
    cdef int targets(self, list found, Given *given, View *views) except -1

cdef class Calls:
    cdef dict found
    cdef int64_t bytes

cdef Kind kind_of(Result result, Given *given) except *
cdef object built(object tree, list results)
cdef bint taken(object tree, object out, list found) except -1
