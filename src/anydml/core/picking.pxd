# Elements picked by indices.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport View
from anydml.core.batch cimport Batch

cdef int add_plane(Batch *batch, char *into, const View *to, int own, const char *source, const View *v, int along, int64_t element) except -1
cdef bint is_error(object word) except -1
