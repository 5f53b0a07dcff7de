from libc.stdint cimport int64_t
from anydml.core.calls cimport Call

cdef struct Part:
    char *data
    int64_t length      # along the axis
    const int64_t *s    # strides, in units of `unit` bytes
    int64_t unit

cdef list held(object given)
cdef int64_t part_size(int64_t equal, list sizes, int i) except? -1
cdef int check_outputs(Call *c, int64_t axis, int count, int64_t equal, list sizes, list out) except -1
cdef object split_axis(Call *c, int64_t axis, int count, int64_t equal, list sizes, list out, list parts)
cdef object join_along(object arrays, object axis, object out, bint is_new, list lengths)
