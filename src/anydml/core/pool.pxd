from libc.stdint cimport int64_t

cdef extern from "pool.h" nogil:
    ctypedef void (*Work "anydml_work_t")(const void *plan, int64_t first, int64_t last) noexcept
    void anydml_share(Work work, const void *plan, int64_t first, int64_t last, int64_t step, int64_t effort)
    void anydml_set_threads(int threads)
    int64_t now "anydml_now"()
    int start "anydml_start"(void *(*run)(void *) noexcept nogil)
    int anydml_threads()
    int anydml_workers()
    int anydml_sleepers()
    int anydml_register_pool_fork_handler()

cdef void share(Work work, const void *plan, int64_t first, int64_t last, int64_t step, int64_t effort) noexcept nogil
