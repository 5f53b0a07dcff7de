# Kernels, which only one module includes.
from anydml.core.moving cimport Move, Stage, Task
from libc.stdint cimport int64_t

cdef extern from "kernels.h" nogil:
    void anydml_run_serially(const Move *m, int64_t count)
    int64_t anydml_written(const Move *m, int64_t count)
    int64_t anydml_plan_stage(Stage *stage, const Move *m, int64_t count, int64_t written)
    void anydml_run_units(const void *plan, int64_t first, int64_t last) noexcept
    void anydml_choose(const char *limit, int64_t stream_from)
    const char *anydml_task_name(const Task *task)
    void anydml_check_indices(const Move *m)
    const char *anydml_isa()
