# Address ranges of moves and arrays.
from anydml.core.moving cimport Move
from libc.stdint cimport int64_t

cdef extern from "reaches.h" nogil:
    ctypedef struct Reach "anydml_reach":
        const char *low
        const char *high
    Reach reach_of "anydml_reach_of"(const char *at, int64_t size, int rank, const int64_t *n, const int64_t *strides)
    Reach writes "anydml_writes"(const Move *m)
    Reach around "anydml_around"(Reach p, Reach q)
    bint are_apart "anydml_apart"(Reach p, Reach q)
    bint reads_apart "anydml_reads_apart"(Reach written, const Move *m)
    bint are_unmixed "anydml_unmixed"(const Move *p, const Move *q)
