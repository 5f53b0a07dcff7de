# Elements picked by indices; calls that look elements up, of whatever kind.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.batch cimport Batch

cdef struct Call:
    View x        # the array that says of what kind the result is
    View indices
    View updates
    View to       # the result
    Kind kind
    int type      # of the indices, as lookups have it
    Batch batch

cdef object opened(Call *c, object x, object indices)
cdef object begun(Call *c, object out, int rank, const int64_t *n)
cdef object looked_up(Call *c, object found, const char *source, int rank, const int64_t *n, const int64_t *a, const int64_t *b, int looks, const int64_t **strides)
cdef int add_plane(Call *c, char *into, const char *source, int along) except -1
cdef int outside_of(const Call *c, object word, const int64_t *sizes, bint are_coordinates, bint is_late) except -3
