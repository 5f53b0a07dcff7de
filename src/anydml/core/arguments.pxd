from libc.stdint cimport int64_t

cdef extern from "numpy/arrayobject.h":
    bint PyArray_IsIntegerScalar(object x)

cdef extern from *:
    """
    static inline int anydml_has_heap_type(PyObject *x) { return PyType_HasFeature(Py_TYPE(x), Py_TPFLAGS_HEAPTYPE); }
    """
    bint has_heap_type "anydml_has_heap_type"(object x)

cdef int read_ints(object items, int64_t *values, int max_count) except -2
cdef int read_int(object number, int64_t *value) except -1
cdef int read_single_int(object number, int64_t *value) except -1
cdef int normalize_axis(int64_t axis, int rank) noexcept nogil
cdef int read_axis(object number, int rank) except -2
