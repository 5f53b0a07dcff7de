# Gathering by indices; common parts of all calls with lookups.
from libc.stdint cimport int64_t
from anydml.core.calls cimport Call

cdef object begin_lookup(Call *c, object x, object indices)
cdef object make_lookup_result(Call *c, object out, int rank, const int64_t *n)
cdef int add_plane(Call *c, char *into, const char *source, int along) except -1
cdef bint lookup_axis(Call *c, object given, int64_t *axis) except -1
