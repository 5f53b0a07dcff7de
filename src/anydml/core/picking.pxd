from libc.stdint cimport int64_t
from anydml.core.calls cimport Call

cdef object as_indices(object given)
cdef bint resolve_index(const char *at, int type, int64_t size, int64_t *offset) noexcept nogil
cdef object begin_lookup(Call *c, object x, object indices, object out_of_range, int other)
cdef int add_plane(Call *c, char *into, const char *source, int along) except -1
cdef int read_lookup_axis(Call *c, object given) except -2
cdef int read_tuples(Call *c, int64_t first) except -2
cdef void add_tuple_lookups(Call *c, int first, const int64_t *strides, int64_t *still, int into) noexcept nogil
