# Gathering by indices; common parts of all calls with lookups.
from libc.stdint cimport int64_t
from anydml.core.calls cimport Call

cdef object opened_by(Call *c, object x, object indices)
cdef object begun(Call *c, object out, int rank, const int64_t *n)
cdef int move_plane(Call *c, char *into, const char *source, int along) except -1
cdef bint along_axis(Call *c, object given, int64_t *axis) except -1
