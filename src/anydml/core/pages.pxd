# Memory from the system.
from libc.stdint cimport int64_t

cdef extern from "pages.h" nogil:
    size_t MOST "ANYDML_MOST"
    char *take_pages "anydml_take_pages"(size_t size)
    void give_pages "anydml_give_pages"(char *pages, size_t size)
    void ask_for_huge "anydml_ask_for_huge"(char *at, size_t size)
    void sleep "anydml_sleep"(int64_t nanoseconds)
    void lock "anydml_lock"()
    void unlock "anydml_unlock"()
    int watch_forks "anydml_guard_forks"(void (*begin_child)() noexcept nogil)
