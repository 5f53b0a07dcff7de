from libc.stdint cimport int64_t

cdef int read_bounded(object given, int count, int64_t *found, int64_t usual, int64_t least) except -1
