# Memory as the system gives it.
from libc.stdint cimport int64_t

cdef extern from "pages.h" nogil:
    ctypedef struct Block "anydml_block":
        Block *older
        Block *newer
        Block *under
        Block *over
        size_t size
        int64_t since
        int64_t shelf

    ctypedef struct Waiting "anydml_waiting":
        Block *shelves[256]
        Block *oldest
        Block *newest
        size_t bytes
        size_t limit
        bint is_watched

    size_t MOST "ANYDML_MOST"
    Block *take_pages "anydml_take_pages"(size_t size)
    void give_pages "anydml_give_pages"(Block *block)
    int64_t now "anydml_now"()
    void sleep "anydml_sleep"(int64_t nanoseconds)
    void lock "anydml_lock"()
    void unlock "anydml_unlock"()
    int watch_forks "anydml_watch_forks"(void (*begin_child)() noexcept nogil)
    int start "anydml_start"(void *(*run)(void *) noexcept nogil)

cdef extern from *:
    int leading_zeros "__builtin_clzll"(unsigned long long number) nogil
