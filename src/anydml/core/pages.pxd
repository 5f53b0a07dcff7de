# Memory from the system.
from libc.stdint cimport int64_t

cdef extern from "pages.h" nogil:
    size_t MAX_SIZE "ANYDML_MAX_SIZE"
    char *map_pages "anydml_map_pages"(size_t size)
    void unmap_pages "anydml_unmap_pages"(char *pages, size_t size)
    void advise_huge "anydml_advise_huge"(char *at, size_t size)
    void sleep "anydml_sleep"(int64_t nanoseconds)
    void lock "anydml_lock"()
    void unlock "anydml_unlock"()
    int register_fork_handlers "anydml_register_fork_handlers"(void (*reset_in_child)() noexcept nogil)
