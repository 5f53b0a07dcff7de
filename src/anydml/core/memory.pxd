# New arrays, and the blocks that large ones lie in.
from numpy cimport dtype, npy_intp

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int rank, npy_intp *shape, dtype kind, int order)

cdef object new_array(int rank, npy_intp *shape, dtype kind)
