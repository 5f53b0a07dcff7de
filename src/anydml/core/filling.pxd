from libc.stdint cimport int64_t
from anydml.core.calls cimport Call

cdef extern from *:
    """
    #include <numpy/arrayobject.h>
    /* Plain bytes and structures, but not registered dtypes such as bfloat16, which have the same kind. */
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

cdef extern from "numbers.h" nogil:
    ctypedef struct Numbers "anydml_numbers":
        char *to
        const char *start
        const char *delta
        int type

cdef bint is_small_number(object value) except -1
cdef bytes begin_fill(Call *c, object x, object value)
cdef bytes begin_zero_fill(Call *c, object x)
cdef int fill_around(Call *c, const int64_t *start, const int64_t *n, const int64_t *step) except -1
cdef int add_inside(Call *c, const int64_t *start) except -1
cdef int extend_by_mode(Call *c, const int64_t *start, object mode) except -1
cdef int add_run(Call *c, int d, const int64_t *start, const int64_t *run) except -1
