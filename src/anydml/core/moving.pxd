from anydml.core.pool cimport Work, share
from libc.stdint cimport int8_t, int32_t, int64_t

cdef extern from "moves.h" nogil:
    enum: ANYDML_RANK
    enum: ANYDML_LOOKUPS
    enum: ANYDML_CLAMP
    enum: ANYDML_SKIP
    enum: ANYDML_REFUSE

    ctypedef struct Lookup "anydml_lookup":
        const char *at
        int64_t b[16]
        int64_t size
        int64_t stride
        int32_t *refused
        int8_t type
        int8_t outside
        int8_t into

    ctypedef struct Move "anydml_move":
        char *to
        const char *source "from"
        int64_t element
        int64_t pattern
        int64_t n[16]
        int64_t a[16]
        int64_t b[16]
        int32_t rank
        int32_t lookups
        Lookup *lookup

cdef extern from "tasks.h" nogil:
    ctypedef struct Task "anydml_task":
        int64_t count
        int64_t units
        int32_t streamed

    ctypedef struct Stage "anydml_stage":
        int64_t units
        int32_t tasks
        Task task[16]

# In integers: an address may be a mere offset before it is bound, and C forbids pointer arithmetic on that.
cdef inline char *offset_by(const char *at, int64_t by) noexcept nogil:
    return <char *>(<size_t>at + <size_t>by)

cdef void check_indices(const Move *m) noexcept nogil
cdef list describe(const Move *m, int64_t count)

cdef int64_t SHARED_EFFORT, ELEMENT_EFFORT, LOOKUP_EFFORT, ROUND_EFFORT, CLAIMS, MIN_CLAIM, MAX_CLAIM

cdef int64_t effort(const Move *m, int64_t count) noexcept nogil
cdef int run(const Move *m, int64_t count, int64_t total) except -1
cdef int run_units(Work work, const void *plan, int64_t units, int64_t total) except -1 nogil
cdef void put_numbers(const void *plan, int64_t first, int64_t last) noexcept nogil
cdef int run_plan(Work work, const void *plan, int64_t units, int64_t total) except -1
cdef void run_backwards(const Move *m, int64_t count) noexcept nogil
