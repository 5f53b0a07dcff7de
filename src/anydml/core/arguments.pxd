from anydml.core.arrays cimport View
from anydml.core.verbs cimport Box, Item, Maker, Integers
from libc.stdint cimport int64_t

# Sizes are integers here, so conditions can be decided.
cdef inline bint holds(bint condition) noexcept:
    return condition

# Whether a list contains a number.
cdef inline bint has(const Integers *values, int64_t number) noexcept:
    cdef int64_t k
    for k in range(values.count):
        if values.at[k] == number:
            return True
    return False

cdef inline int64_t abs(int64_t number) noexcept:
    return number if number > 0 else -number

# Whether a size is 1, and not open.
cdef inline bint is_one(int64_t size) noexcept:
    return size == 1

# Whether a size is 0, and not open.
cdef inline bint is_zero(int64_t size) noexcept:
    return size == 0

# Whether an element is a number; the function that writes it checks this.
cdef inline bint is_number(Item value) noexcept:
    return True

# Whether no number of a list is open.
cdef inline bint are_known(Integers *values) noexcept:
    return True

cdef extern from "numpy/arrayobject.h":
    bint PyArray_IsIntegerScalar(object x)

cdef extern from *:
    """
    #include <numpy/arrayobject.h>
    #include <math.h>
    #include <string.h>
    static inline int anydml_has_heap_type(PyObject *x) { return PyType_HasFeature(Py_TYPE(x), Py_TPFLAGS_HEAPTYPE); }
    /* Plain bytes and structures, but not registered dtypes such as bfloat16, which have the same kind. */
    static int anydml_is_opaque(PyObject *descr) {
        PyArray_Descr *d = (PyArray_Descr *)descr;
        return d->kind == 'V' && d->type_num < NPY_USERDEF;
    }
    static int anydml_is_text(PyObject *descr) { return PyTypeNum_ISSTRING(((PyArray_Descr *)descr)->type_num); }
    static int anydml_is_time(PyObject *descr) { return PyTypeNum_ISDATETIME(((PyArray_Descr *)descr)->type_num); }
    static int anydml_is_extended(PyObject *descr) {
        return PyTypeNum_ISUSERDEF(((PyArray_Descr *)descr)->type_num);
    }
    /* The largest number that is not stored as infinity. */
    static double anydml_largest(PyObject *descr) {
        int type = ((PyArray_Descr *)descr)->type_num;
        return type == NPY_HALF ? 65504 : type == NPY_FLOAT || type == NPY_CFLOAT ? 3.4028234663852886e38 : HUGE_VAL;
    }
    static PyObject *anydml_element(PyObject *descr, char *at) {
        return PyArray_Scalar(at, (PyArray_Descr *)descr, NULL);
    }
    static int anydml_pack(PyObject *descr, char *at, PyObject *value) {
        return PyArray_Pack((PyArray_Descr *)descr, at, value);
    }
    """
    bint has_heap_type "anydml_has_heap_type"(object x)
    bint is_opaque "anydml_is_opaque"(void *descr)
    bint is_text "anydml_is_text"(void *descr)
    bint is_time "anydml_is_time"(void *descr)
    bint is_extended "anydml_is_extended"(void *descr)
    double largest "anydml_largest"(void *descr)
    object element_at "anydml_element"(void *descr, char *at)
    int pack "anydml_pack"(void *descr, char *at, object value) except -1

cdef enum:
    SAME = 0
    INDICES = 1
    MASK = 2

cdef class HostIntegers:
    cdef Integers *shape
    cdef Integers rank_one
    cdef int64_t count
    cdef bint is_integer
    cdef object dtype
    cdef list values

cdef HostIntegers read_host_integers(object items)
cdef object with_counts(object result, list counts)
cdef object as_indices(object indices)
cdef int read_first(Maker *maker, object x, int64_t count) except -1
cdef int read_next(Maker *maker, object x, int kind) except -1
cdef Box *_box(Maker *maker, const View *v, int type) except NULL
cdef Item item(Maker *maker, object x, object value) except NULL
cdef int64_t prod(Integers *factors) noexcept
cdef int read_all(Maker *maker, list arrays) except -1
cdef int read_int(object number, int64_t *value) except -1
cdef int64_t integer(Maker *maker, object field, object number) except? -1
cdef Integers *integers_or_symbols(Maker *maker, object field, object items) except NULL
cdef bint is_single(object number) except -1
cdef Integers *one_or_more(Maker *maker, object field, object items) except NULL
cdef bint are_equal(Integers *a, Integers *b) noexcept
cdef bint are_at_least(int64_t minimum, Integers *values) noexcept
cdef int64_t sum(Integers *terms) noexcept
