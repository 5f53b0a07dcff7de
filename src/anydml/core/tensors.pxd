from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

# A library's table and its arrays, as in DLPack's specification (dlpack.h, version 1).
cdef struct DType:
    uint8_t code
    uint8_t bits
    uint16_t lanes

cdef struct DLTensor:
    void *data
    int32_t device
    int32_t number
    int32_t ndim
    DType dtype
    int64_t *shape
    int64_t *strides  # in elements
    uint64_t byte_offset

cdef struct Api:
    uint32_t major
    uint32_t minor
    void *previous
    void *allocate_tensor
    void *to_managed
    void *from_managed
    int (*to_dltensor)(void *, DLTensor *) noexcept

cdef extern from *:
    """
    /* The truth value of an attribute by its descriptor, faster than by its name; -1 if it raises. */
    static inline int anydml_attribute_is_true(PyObject *attribute, PyObject *x) {
        PyObject *value = Py_TYPE(attribute)->tp_descr_get(attribute, x, (PyObject *)Py_TYPE(x));
        int is_true = value ? PyObject_IsTrue(value) : -1;
        Py_XDECREF(value);
        return is_true;
    }
    """
    bint attribute_is_true "anydml_attribute_is_true"(object attribute, object x) except -1

cdef extern from "Python.h":
    void clear_error "PyErr_Clear"()
    object call "PyObject_Vectorcall"(object function, PyObject **arguments, size_t count, PyObject *names)

cdef class Library:
    cdef const Api *api
    cdef object capsule
    cdef tuple queries, states
    cdef object on_write, from_lengths
    cdef dict dtypes
    cdef char[8][17] known  # by DLPack's type code and size in bytes
    cdef object requires_grad, is_negative, is_conjugate, new_empty

cdef Library library_of(object x)
cdef bint is_left_to_python(Library library) except -1
cdef int read_dltensor(Library library, object x, DLTensor *described) except -1
cdef object new_tensor(Library library, object like, int rank, const int64_t *n, double bytes, char **data)
cdef int HOST, COMPLEX
cdef double HUGE_PAGES_FROM
cdef size_t LOWEST_ADDRESS
cdef dict LIBRARIES
