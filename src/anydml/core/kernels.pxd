# Kernels, which only one module includes.
from anydml.core.moving cimport Move, Stage, Task
from libc.stdint cimport int64_t

cdef extern from "kernels.h" nogil:
    void run_serially "anydml_run_serially"(const Move *m, int64_t count)
    int64_t written "anydml_written"(const Move *m, int64_t count)
    int64_t plan_stage "anydml_plan_stage"(Stage *stage, const Move *m, int64_t count, int64_t written)
    void run_units "anydml_run_units"(const void *plan, int64_t first, int64_t last) noexcept
    void choose "anydml_choose"(const char *limit, int64_t stream_from)
    const char *task_name "anydml_task_name"(const Task *task)
    void check_indices "anydml_check_indices"(const Move *m)
    const char *isa "anydml_isa"()
    void put_numbers "anydml_put_numbers"(const void *plan, int64_t first, int64_t last) noexcept
