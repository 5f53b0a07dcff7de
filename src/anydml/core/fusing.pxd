from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.forms cimport Form
from anydml.core.signatures cimport Arguments
from anydml.core.tapes cimport Tape

cdef class ResultSpec:
    cdef int rank
    cdef int64_t n[64]
    cdef object dtype
    cdef int like

cdef class CompiledTrace:
    cdef Tape tape
    cdef int64_t first
    cdef Form form
    cdef tuple constants, scratch, results_for_scratch, results
    cdef object tree, change, kept_objects
    cdef bint is_one
    cdef object run(self, Arguments *arguments, int64_t *registers, object out)

cdef class TracedCallable:
    cdef dict traces
    cdef int64_t bytes
    cdef public int64_t hits
    cdef public int naming
    cdef object function, code
    cdef bint is_outdated(self) noexcept
    cpdef object call_compiled(self, tuple arguments, dict keywords, object out)
    cdef object run(self, Arguments *buffer, object out, bint *may_fit)

cdef Kind kind_of(ResultSpec result, Arguments *arguments) except *
