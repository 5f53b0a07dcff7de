# Address ranges of moves and arrays.
from anydml.core.moving cimport Move
from libc.stdint cimport int64_t

cdef extern from "ranges.h" nogil:
    ctypedef struct Range "anydml_range":
        const char *low
        const char *high
    Range range_of "anydml_range_of"(const char *at, int64_t size, int rank, const int64_t *n, const int64_t *strides)
    Range write_range "anydml_write_range"(const Move *m)
    Range union_range "anydml_union_range"(Range p, Range q)
    bint are_disjoint "anydml_disjoint"(Range p, Range q)
    bint reads_outside "anydml_reads_outside"(Range written, const Move *m)
    bint no_read_conflict "anydml_no_read_conflict"(const Move *p, const Move *q)
    bint are_all_disjoint "anydml_all_disjoint"(Range *ranges, int64_t count)
