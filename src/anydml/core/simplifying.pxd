from libc.stdint cimport int32_t, int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.moving cimport Lookup, Move

cdef enum:
    MAX_PENDING = 32  # moves per batch

# Arrays of length 1 decay to pointers when passed.
cdef struct Call:
    View x[1]        # the array that determines the kind of results
    View to[1]       # the result
    Kind kind[1]
    const char *pattern  # bytes of the fill element
    bint has_out     # whether the only result is the caller's array
    bint is_in_place # whether the result is x itself
    bint is_unfit    # whether Python must handle the call
    int32_t refused  # whether an index that must be in range is not
    int count        # pending moves; -1 while they run
    int64_t total    # bytes that a call of several batches writes, or 0
    int lookup_count        # of all moves
    Move moves[32]
    Lookup lookups[16]

cdef int simplify(Move *m, int rank, const int64_t *n, const int64_t *a, const int64_t *b, const int64_t **strides) noexcept nogil
cdef void copy_dimension(Move *m, int to, int source) noexcept nogil
cdef bint can_merge(const Move *m, int outer, int inner) noexcept nogil
cdef void merge_into(Move *m, int outer, int inner) noexcept nogil
cdef bint merge_dimension(Move *m, int d) noexcept nogil
cdef bint extend_move(Move *first, const Move *second, bint are_apart) noexcept nogil
cdef bint has_invalid_index(const Move *m, int lookup_mask) noexcept nogil
cdef int add_move(Call *c, char *to, const char *source, int rank, const int64_t *n, const int64_t *a, const int64_t *b) except -1
cdef int add_fill(Call *c, char *to, int rank, const int64_t *n, const int64_t *a) except -1
cdef Move *next_move(Call *c, char *to, const char *source, int64_t pattern) noexcept nogil
cdef int keep_move(Call *c, int simplified) except -1
cdef int run_moves(Call *c) except -1
cdef int64_t ZEROS[130]
