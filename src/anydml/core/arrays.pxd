from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from numpy cimport ndarray, npy_intp
from anydml.core.ranges cimport Range
from anydml.core.tensors cimport DType, Library

cdef extern from *:
    """
    #include <numpy/arrayobject.h>
    static inline PyArray_Descr *anydml_descr(PyObject *x) { return PyArray_DESCR((PyArrayObject *)x); }
    static inline PyArrayObject *anydml_array(PyObject *x) { return (PyArrayObject *)x; }
    static inline int anydml_is_alike(PyObject *x, PyObject *descr) {
        PyArray_Descr *descr_of_x = anydml_descr(x);
        return (PyObject *)descr_of_x == descr || PyArray_EquivTypes(descr_of_x, (PyArray_Descr *)descr);
    }
    """
    PyObject *descr_of "(PyObject *)anydml_descr"(object x)
    bint has_references "PyDataType_REFCHK"(PyArrayDescr *descr)
    ctypedef struct PyArrayDescr "PyArray_Descr":
        char kind
        char byteorder
    void *as_array "anydml_array"(object x)
    char *data_of "PyArray_BYTES"(void *x)
    int rank_of "PyArray_NDIM"(void *x)
    const int64_t *sizes_of "(const int64_t *)PyArray_DIMS"(void *x)
    const int64_t *strides_of "(const int64_t *)PyArray_STRIDES"(void *x)
    PyArrayDescr *description "anydml_descr"(object x)
    bint is_alike "anydml_is_alike"(object x, PyObject *descr)

cdef enum:
    RANK = 64  # maximum number of dimensions of a NumPy array
    # DLPack's type codes that are distinguished, and one that DLPack does not use.
    INTEGER = 0
    UNSIGNED = 1
    BOOL = 6
    NO_CODE = 255

cdef struct View:
    char *data
    int rank
    const int64_t *sizes
    const int64_t *strides  # in bytes
    int64_t storage[64] # storage for computed strides

cdef struct Kind:
    PyObject *descr    # NumPy dtype, borrowed from the first array read; NULL for tensors
    PyObject *library  # of tensors, borrowed; NULL for NumPy arrays
    PyObject *like     # the first tensor read, borrowed
    DType dtype        # of tensors
    int64_t element

cdef int read_array(object array, View *view, Kind *kind) except -1
cdef int read_same_kind(object array, View *view, const Kind *kind) except -1
cdef int read_indices(object array, const Kind *kind, View *view, int *type) except -1
cdef int read_mask(object array, const Kind *kind, View *view) except -1
cdef int read_any(object array, const Kind *kind, View *view, DType *dtype) except -1
cdef int read_tensor(object array, Library library, View *view, DType *dtype) except -1
cdef object new_result(const Kind *kind, int rank, const int64_t *sizes, View *view)
cdef int read_output(object out, const Kind *kind, int rank, const int64_t *sizes, View *view) except -1
cdef int notify_written(object out, const Kind *kind) except -1
cdef object numpy_dtype(const Kind *kind)
cdef bint is_disjoint(const View *view, int64_t element, const View *other_view, int64_t other_element) noexcept nogil
cdef Range array_range(const View *view, int64_t element) noexcept nogil
cdef int64_t element_count(int rank, const int64_t *sizes) noexcept nogil

# The address, sizes and strides of a NumPy array.
cdef inline void read_ndarray(object array, View *view) noexcept:
    view.data, view.rank = data_of(as_array(array)), rank_of(as_array(array))
    view.sizes, view.strides = sizes_of(as_array(array)), strides_of(as_array(array))
