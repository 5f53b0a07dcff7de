# One array into several along an axis, and several into one.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View

cdef struct Part:
    char *data
    int64_t length      # along the axis
    const int64_t *s    # strides, in units of bytes
    int64_t unit

cdef object put_together(Part *part, tuple arrays, object axis, object out, bint is_new)
cdef object cut(const Kind *k, const View *x, int64_t axis, int count, int64_t equal, tuple sizes, object out)
cdef int fit(const Kind *k, const View *x, int64_t axis, int count, int64_t equal, tuple sizes, tuple out) except -1
cdef object joined(tuple arrays, object axis, object out, bint is_new)
