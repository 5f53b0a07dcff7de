from libc.stdint cimport int64_t, uint64_t
from anydml.core.pool cimport Work
from numpy cimport dtype

cdef extern from "nonzero_search.h" nogil:
    int64_t ANYDML_SEARCH_BLOCK
    ctypedef struct Search "anydml_search":
        const char *elements
        int64_t element_count
        int64_t element_size
        uint64_t mask
        int64_t block_count
        int64_t *found_before
        int rank
        const int64_t *sizes
        char *output
        int64_t output_size
        const char *items
        const int64_t *item_strides
    void anydml_count(const void *plan, int64_t first, int64_t last) noexcept
    void anydml_coordinates(const void *plan, int64_t first, int64_t last) noexcept
    void anydml_items(const void *plan, int64_t first, int64_t last) noexcept

cdef object find_coordinates(Search *search, int rank, const int64_t *shape, dtype dtype)
cdef bytes count_found(Search *search)
cdef int write_found(Search *search, Work work) except -1
