# A call under way: what was read, where its results go, and the moves between them.
from libc.stdint cimport int32_t, int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.moving cimport Lookup, Move

cdef enum:
    MOST = 32  # moves that are run together
    REFUSE = -1  # what is written where an index lies outside is thrown away

# Arrays of one struct are passed by their addresses.
cdef struct Call:
    View x[1]        # the array that says of what kind results are
    View indices[1]
    View updates[1]
    View to[1]       # the result
    Kind kind[1]
    int type         # of the indices, as lookups have it
    const char *pattern  # an element that is known
    int64_t n[130]   # room for a box: its sizes,
    int64_t a[130]   # its strides at the destination,
    int64_t b[130]   # and at the source
    bint is_given    # whether that is the caller's
    bint is_unfit    # whether a move has too many dimensions, or no element to look up
    int outside      # what lookups do with indices outside their axes
    int refusing     # lookups, a bit each, whose indices have to be inside before anything is written
    int32_t refused  # whether an index was found outside that may not be
    int count        # moves that were not run yet
    int looks        # lookups of the last one
    Move moves[32]
    Lookup lookups[16]

cdef int opened(Call *c, object x) except -1
cdef object result(Call *c, object out, int rank, const int64_t *n)
cdef int move(Call *c, char *to, const char *source, int rank, const int64_t *n, const int64_t *a, const int64_t *b) except -1
cdef int fill_box(Call *c, char *to, int rank, const int64_t *n, const int64_t *a) except -1
cdef bint choose_outside(Call *c, object word, int other) except -1
cdef void look_up(Call *c, const char *at, int64_t size, int64_t stride, int into) noexcept nogil
cdef object looked_up(Call *c, object found, const char *source, int rank, const int64_t *n, const int64_t *a, const int64_t *b, const int64_t *s)
cdef object moved(Call *c, object out, int rank, const int64_t *n, const char *source, const int64_t *b)
cdef object done(Call *c, object found)
cdef Move *_next(Call *c, char *to, const char *source, int64_t pattern) noexcept nogil
cdef int _added(Call *c, int simplified) except -1
cdef int _run(Call *c) except -1
cdef int64_t ZEROS[130]
