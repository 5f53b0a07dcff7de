"""Watching which instructions of Python code are executed; see `anydml.tracing.executed_instructions`."""

import sys

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
from cython.cimports.cpython.dict import PyDict_GetItem
from cython.cimports.cpython.ref import Py_DECREF, PyObject


class Watch:
    """Records the instructions that this thread executes between `begin` and `end`, or lets it execute known ones only.

    Args:
        marks_by_code: for each code object by its identity, a byte per two bytes of its instructions: 1 if it was
            executed.
        enter: is called with the frame of a code object that is not in `marks_by_code`; returns False if that is to be
            asked again, and None if its code is of no interest, or adds it there.
        refuse: raises an exception, instead of an instruction that was never executed; None to record it.
    """

    def __cinit__(self, marks_by_code: dict, enter, refuse):
        self.seen, self.others = marks_by_code, {}
        self.enter, self.refuse = enter, refuse
        self.frame = self.marks = cython.NULL
        self.count = 0

    def begin(self):
        """Begin to watch."""
        # Python 3.12 reports instructions only if a frame wants them beforehand.
        sys._getframe().f_trace_opcodes = True
        set_tracer(watch, cython.cast(cython.pointer(PyObject), self))

    def end(self):
        """End it."""
        remove_tracer()

    def on_call(self, frame):
        """Have the instructions of a frame reported if its code is watched."""
        self.frame = cython.NULL
        code: cython.pointer(PyObject) = code_of(frame)
        key = cython.cast(object, code)
        Py_DECREF(key)
        number = cython.cast(cython.size_t, code)
        if PyDict_GetItem(self.others, number) != cython.NULL:
            return True
        place = cython.cast(object, frame)
        if PyDict_GetItem(self.seen, number) == cython.NULL:
            is_traced = self.enter(place)
            if is_traced is None:
                # The code is kept, so that no other has its identity.
                self.others[number] = key
            if not is_traced:
                place.f_trace_lines = False
                return True
        # Python 3.13 reports no instructions of a frame without a function, which a debugger may call later.
        place.f_trace = ignore
        place.f_trace_opcodes, place.f_trace_lines = True, False
        return True

    def on_instruction(self, frame):
        """Record an instruction, or refuse it."""
        if frame != self.frame:
            code: cython.pointer(PyObject) = code_of(frame)
            key = cython.cast(object, code)
            Py_DECREF(key)
            entry = PyDict_GetItem(self.seen, cython.cast(cython.size_t, code))
            if entry == cython.NULL:
                return True
            marks: bytearray = cython.cast(bytearray, entry)
            self.frame, self.marks, self.count = frame, PyByteArray_AS_STRING(marks), len(marks)
        at = instruction(frame)
        if 0 <= at < self.count and not self.marks[at]:
            if self.refuse is not None:
                self.refuse()
            self.marks[at] = 1
        return True


def ignore(frame, event, arg):
    """Do nothing in a frame."""


def watch(watch_object, frame, event, arg):
    """Be told by the interpreter what happens in a frame."""
    if event == PyTrace_OPCODE:
        cython.cast(Watch, watch_object).on_instruction(frame)
    elif event == PyTrace_CALL:
        cython.cast(Watch, watch_object).on_call(frame)
    return 0


def unwatched(function, *arguments):
    """Call a function, whose instructions are not watched, even if the caller's are."""
    thread = pause(watch)
    try:
        return function(*arguments)
    finally:
        resume(thread)
