from cpython.ref cimport PyObject

cdef extern from *:
    """
    #ifndef Py_BUILD_CORE
    #define Py_BUILD_CORE 1
    #endif
    #include "internal/pycore_frame.h"
    #if PY_VERSION_HEX < 0x030c0000
    #define ANYDML_FUNCTION(frame) (*(PyObject **)&(frame)->f_func)
    #elif PY_VERSION_HEX < 0x030e0000
    #define ANYDML_FUNCTION(frame) ((frame)->f_funcobj)
    #endif

    #ifdef ANYDML_FUNCTION
    static PyObject *anydml_function(PyObject *frame, PyObject *code) {
        PyObject *function = ANYDML_FUNCTION(((PyFrameObject *)frame)->f_frame);
        // The code of a function may have been replaced while it runs.
        int is_of_code = function && PyFunction_Check(function) && PyFunction_GET_CODE(function) == code;
        return is_of_code ? function : NULL;
    }
    static void anydml_replace_function(PyObject *frame_object, PyObject *function) {
        _PyInterpreterFrame *frame = ((PyFrameObject *)frame_object)->f_frame;
        PyFunctionObject *fields = (PyFunctionObject *)function;
        PyCodeObject *code = (PyCodeObject *)fields->func_code;
        for (int k = 0; k < code->co_nfreevars; k++) {
            PyObject **cell = &frame->localsplus[code->co_nlocalsplus - code->co_nfreevars + k], *old = *cell;
            *cell = Py_NewRef(PyTuple_GET_ITEM(fields->func_closure, k));
            Py_XDECREF(old);
        }
        // The frame owns its function, which owns the others.
        PyObject *old = ANYDML_FUNCTION(frame);
        ANYDML_FUNCTION(frame) = Py_NewRef(function);
        frame->f_globals = fields->func_globals;
        frame->f_builtins = fields->func_builtins;
        Py_DECREF(old);
    }
    #else
    // Of later versions the layout of frames has not been tried.
    static PyObject *anydml_function(PyObject *frame, PyObject *code) { return NULL; }
    static void anydml_replace_function(PyObject *frame, PyObject *function) {}
    #endif
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
    PyObject *function_of "anydml_function"(PyObject *frame, PyObject *code)
    void replace_function "anydml_replace_function"(PyObject *frame, PyObject *function)
    void set_tracer "anydml_set_tracer"(Tracer watch, PyObject *watch_object)
    void remove_tracer "anydml_remove_tracer"()
    PyThreadState *pause "anydml_pause"(Tracer watch)
    void resume "anydml_resume"(PyThreadState *thread)
    int PyTrace_CALL, PyTrace_OPCODE

cdef class Watch:
    cdef dict marks_by_code, ignored_codes
    cdef object enter, refuse, follow
    cdef PyObject *frame   # of the latest instruction,
    cdef char *marks       # and those of its code
    cdef Py_ssize_t count
    cdef bint on_call(self, PyObject *frame) except False
    cdef bint on_instruction(self, PyObject *frame) except False

cdef int watch(PyObject *watch_object, PyObject *frame, int event, PyObject *arg) except -1
