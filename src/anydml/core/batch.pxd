# Moves of one call, collected until they are run together.
from libc.stdint cimport int32_t, int64_t
from anydml.core.moving cimport Lookup, Move

cdef enum:
    MOST = 32  # moves that are run together
    REFUSE = -1  # what is written where an index lies outside is thrown away

cdef struct Batch:
    int count
    int looks
    int32_t refused
    Move moves[32]
    Lookup lookups[32]

cdef void begin(Batch *batch) noexcept nogil
cdef int add(Batch *batch, char *to, const char *source, int64_t element, int rank, const int64_t *n, const int64_t *a, const int64_t *b) except -1
cdef int add_fill(Batch *batch, char *to, const char *pattern, int64_t period, int64_t element, int rank, const int64_t *n, const int64_t *a) except -1
cdef Lookup *look_up(Batch *batch, const char *at, int type, int64_t size, int64_t stride, int outside, int into) noexcept nogil
cdef int add_looking(Batch *batch, char *to, const char *source, int64_t element, int rank, const int64_t *n, const int64_t *a, const int64_t *b, int looks, const int64_t **strides) except -1
cdef int run_all(Batch *batch) except -1
cdef int _added(Batch *batch) except -1
cdef int64_t ZEROS[64]
