from cpython.ref cimport PyObject

cdef extern from *:
    """
    static Py_ssize_t anydml_instruction(PyObject *frame) {
        return PyFrame_GetLasti((PyFrameObject *)frame) / 2;
    }
    static PyObject *anydml_code(PyObject *frame) {
        return (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    }
    static void anydml_set_tracer(int (*watch)(PyObject *, PyObject *, int, PyObject *), PyObject *watch_object) {
        PyEval_SetTrace((Py_tracefunc)watch, watch_object);
    }
    static void anydml_remove_tracer(void) { PyEval_SetTrace(NULL, NULL); }
    static PyThreadState *anydml_pause(int (*watch)(PyObject *, PyObject *, int, PyObject *)) {
        PyThreadState *thread = PyThreadState_Get();
        if (thread->c_tracefunc != (Py_tracefunc)watch) {
            return NULL;
        }
        PyThreadState_EnterTracing(thread);
        return thread;
    }
    static void anydml_resume(PyThreadState *thread) {
        if (thread) {
            PyThreadState_LeaveTracing(thread);
        }
    }
    """
    ctypedef struct PyThreadState:
        pass
    ctypedef int (*Tracer)(PyObject *watch_object, PyObject *frame, int event, PyObject *arg) except -1
    Py_ssize_t instruction "anydml_instruction"(PyObject *frame)
    PyObject *code_of "anydml_code"(PyObject *frame)
    void set_tracer "anydml_set_tracer"(Tracer watch, PyObject *watch_object)
    void remove_tracer "anydml_remove_tracer"()
    PyThreadState *pause "anydml_pause"(Tracer watch)
    void resume "anydml_resume"(PyThreadState *thread)
    int PyTrace_CALL, PyTrace_OPCODE

cdef class Watch:
    cdef dict marks_by_code, ignored_codes
    cdef object enter, refuse
    cdef PyObject *frame   # of the latest instruction,
    cdef char *marks       # and those of its code
    cdef Py_ssize_t count
    cdef bint on_call(self, PyObject *frame) except False
    cdef bint on_instruction(self, PyObject *frame) except False

cdef int watch(PyObject *watch_object, PyObject *frame, int event, PyObject *arg) except -1
