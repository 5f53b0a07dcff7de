"""Watching which instructions of Python code are executed; see `anydml.tracing.executed_instructions`."""

import sys

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
from cython.cimports.cpython.dict import PyDict_GetItem
from cython.cimports.cpython.ref import Py_DECREF, PyObject


class Watch:
    """Records the instructions that this thread executes between `begin` and `end`, or refuses those without a record.

    Args:
        marks_by_code: for each code object by its identity, a byte per two bytes of its instructions: 1 if it was
            executed.
        enter: is called with the frame of a code object that is not in `marks_by_code`. Adds it there and returns True;
            returns False to be called again for this code, or None to ignore it.
        refuse: raises an exception, instead of an instruction that was never executed; None to record it.
        follow: is called with the frame of each call of watched code, and with its function, or None if that is not
            known. Returns a copy of the function, which runs instead, or None. `follow` may itself be None.
    """

    def __cinit__(self, marks_by_code: dict, enter, refuse, follow):
        self.marks_by_code, self.ignored_codes = marks_by_code, {}
        self.enter, self.refuse, self.follow = enter, refuse, follow
        self.frame = self.marks = cython.NULL
        self.count = 0

    def begin(self):
        """Begin to watch."""
        # Python 3.12 reports instructions only if a frame wants them beforehand.
        sys._getframe().f_trace_opcodes = True
        set_tracer(watch, cython.cast(cython.pointer(PyObject), self))

    def end(self):
        """End watching."""
        remove_tracer()

    def on_call(self, frame):
        """Ask Python to report the instructions of a frame, if the frame's code is watched."""
        self.frame = cython.NULL
        code: cython.pointer(PyObject) = code_of(frame)
        key = cython.cast(object, code)
        Py_DECREF(key)
        number = cython.cast(cython.size_t, code)
        if PyDict_GetItem(self.ignored_codes, number) != cython.NULL:
            return True
        frame_object = cython.cast(object, frame)
        if PyDict_GetItem(self.marks_by_code, number) == cython.NULL:
            is_traced = self.enter(frame_object)
            if is_traced is None:
                # The code is kept, so that no other object gets its identity.
                self.ignored_codes[number] = key
            if not is_traced:
                frame_object.f_trace_lines = False
                return True
        if self.follow is not None:
            function = function_of(frame, code)
            copied = self.follow(None if function == cython.NULL else cython.cast(object, function), frame_object)
            if copied is not None:
                replace_function(frame, cython.cast(cython.pointer(PyObject), copied))
        # Python 3.13 reports no instructions of a frame without a function, which a debugger may call later.
        frame_object.f_trace = ignore
        frame_object.f_trace_opcodes, frame_object.f_trace_lines = True, False
        return True

    def on_instruction(self, frame):
        """Record an instruction, or refuse it."""
        if frame != self.frame:
            code: cython.pointer(PyObject) = code_of(frame)
            key = cython.cast(object, code)
            Py_DECREF(key)
            entry = PyDict_GetItem(self.marks_by_code, cython.cast(cython.size_t, code))
            if entry == cython.NULL:
                return True
            marks: bytearray = cython.cast(bytearray, entry)
            self.frame, self.marks, self.count = frame, PyByteArray_AS_STRING(marks), len(marks)
        number_of_instruction = instruction(frame)
        if 0 <= number_of_instruction < self.count and not self.marks[number_of_instruction]:
            if self.refuse is not None:
                self.refuse()
            self.marks[number_of_instruction] = 1
        return True


def ignore(frame, event, arg):
    """Do nothing in a frame."""


def watch(watch_object, frame, event, arg):
    """Handle an event that the interpreter reports of a frame."""
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
