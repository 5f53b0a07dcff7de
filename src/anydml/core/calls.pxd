from libc.stdint cimport int32_t, int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.moving cimport Lookup, Move

cdef enum:
    MOST = 32  # moves per batch
    REFUSE = -1  # an index out of range is an error: there is no result

# Arrays of length 1 decay to pointers when passed.
cdef struct Call:
    View x[1]        # the array that determines the kind of results
    View indices[1]  # without data if there are none,
    View updates[1]  # likewise
    View to[1]       # the result
    Kind kind[1]
    int type         # of the indices, as in lookups
    const char *pattern  # bytes of the fill element
    int64_t n[130]   # storage for a box: its sizes,
    int64_t a[130]   # its strides at the destination,
    int64_t b[130]   # at the source,
    int64_t s[64]    # and in the indices
    bint has_out     # whether the result is the caller's array
    bint is_in_place # whether the result is x itself
    bint is_unfit    # whether Python must handle the call
    int outside      # treatment of indices out of range
    int refusing     # bit mask of lookups whose indices must be checked before anything is written
    int32_t refused  # whether an index that must be in range is not
    int count        # pending moves
    int64_t total    # bytes that a call of several batches writes, or 0
    int lookup_count        # lookups of the last move
    Move moves[32]
    Lookup lookups[16]

cdef int begin(Call *c, object x) except -1
cdef object make_result(Call *c, object out, int rank, const int64_t *n)
cdef int add_move(Call *c, char *to, const char *source, int rank, const int64_t *n, const int64_t *a, const int64_t *b) except -1
cdef int add_fill(Call *c, char *to, int rank, const int64_t *n, const int64_t *a) except -1
cdef bint read_outside(Call *c, object word, int other) except -1
cdef void add_lookup(Call *c, const char *at, int64_t size, int64_t stride, int into) noexcept nogil
cdef object finish_lookups(Call *c, object found, const char *source, int rank, const int64_t *n, const int64_t *a, const int64_t *b, const int64_t *s)
cdef object finish_view(Call *c, object out, int rank, const int64_t *n, const char *source, const int64_t *b)
cdef object finish(Call *c, object found)
cdef Move *_next_move(Call *c, char *to, const char *source, int64_t pattern) noexcept nogil
cdef int _keep_move(Call *c, int simplified) except -1
cdef int _flush(Call *c) except -1
cdef int64_t ZEROS[130]
