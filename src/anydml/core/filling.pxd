# Elements that are known, around others or in their place.
from libc.stdint cimport int64_t
from anydml.core.arrays cimport Kind, View
from anydml.core.batch cimport Batch

cdef extern from *:
    """
    #include <numpy/arrayobject.h>
    /* Plain bytes and structures; registered dtypes, such as bfloat16, are of that kind, too. */
    static int anydml_is_opaque(PyObject *descr) {
        PyArray_Descr *d = (PyArray_Descr *)descr;
        return d->kind == 'V' && d->type_num < NPY_USERDEF;
    }
    static int anydml_pack(PyObject *descr, char *at, PyObject *value) {
        return PyArray_Pack((PyArray_Descr *)descr, at, value);
    }
    """
    bint is_opaque "anydml_is_opaque"(void *descr)
    int pack "anydml_pack"(void *descr, char *at, object value) except -1

cdef bint is_plain(object value) except -1
cdef bytes pattern_of(const Kind *k, object value)
cdef int surround(Batch *batch, const View *to, int64_t element, const int64_t *start, const int64_t *n, const int64_t *step, const char *pattern) except -1
cdef int extend(Batch *batch, const View *to, int64_t element, const int64_t *start, const int64_t *n, object mode) except -1
cdef int put_run(Batch *batch, const View *to, int64_t element, int d, const int64_t *start, const int64_t *n, int64_t *run) except -1
