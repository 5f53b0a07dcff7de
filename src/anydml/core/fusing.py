"""Calls of fused functions: matched to a trace by their arguments, and run up to the results.

Unusual calls are left to Python, which reports errors, before any of the caller's arrays is written.
"""

from types import FunctionType

import cython
import numpy as np
from cython.cimports.anydml.core.arrays import array_range, new_result, notify_written
from cython.cimports.anydml.core.in_place import check_output, conflicts, remove_noops
from cython.cimports.anydml.core.memory import new_array
from cython.cimports.anydml.core.moving import Move, run
from cython.cimports.anydml.core.program import address
from cython.cimports.anydml.core.ranges import Range, union_range
from cython.cimports.anydml.core.signatures import ARRAYS, borrow_buffer, is_packed, read_arguments, return_buffer
from cython.cimports.anydml.core.slots import Slot, fill_slots, match_slots
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.dict import PyDict_GetItem
from cython.cimports.cpython.function import PyFunction_GetCode
from cython.cimports.cpython.ref import PyObject
from cython.cimports.libc.stdint import int32_t
from cython.cimports.libc.string import memcpy
from cython.cimports.numpy import dtype, import_array, npy_intp

import_array()

MAX_TRACES = cython.declare(int64_t, 64)
"""Maximum number of cached traces per key; beyond it, all are dropped."""

MAX_BYTES = cython.declare(int64_t, 32 << 20)
"""Maximum of the approximate bytes of a function's cached traces; beyond it, all are dropped."""

FIXED_WEIGHT = cython.declare(int64_t, 1024)
"""Approximate bytes of a cached call, apart from its code."""

CODE_WEIGHT = cython.declare(int64_t, 8)
"""Approximate bytes of a cached call per number of its code."""

WORD = np.dtype(np.uint64)


class ResultSpec:
    """An array that a call returns.

    Args:
        sizes: registers of its sizes.
        kind: NumPy's dtype.
        like: the number of an argument of the same dtype, for arrays of another library.
    """

    def __cinit__(self, sizes: tuple, kind, like: cython.int):
        self.rank = len(sizes)
        for k in range(self.rank):
            self.n[k] = sizes[k]
        self.dtype = kind
        self.like = like


class CompiledTrace:
    """A trace that compiled code runs.

    Args:
        tape: computes all numbers.
        first: number of instructions before the results' strides, whose registers come next, result by result.
        form: the moves, between inputs, results, constants and scratch.
        constants: arrays.
        scratch: registers of the scratch operands' sizes in bytes.
        results_for_scratch: by scratch operand, the result whose memory it may use if packed; −1 if it needs its own.
        results: a `ResultSpec` each.
        tree: the returned structure, with a `Slot` for each result.
        change: returns which value that the function reads, other than an argument, has changed, or None; None if
            there are no such values.
    """

    def __cinit__(self, tape, first, form, constants, scratch, results_for_scratch, results, tree, change):
        self.tape = tape
        self.first = first
        self.form = form
        self.constants = constants
        self.scratch = scratch
        self.results_for_scratch = results_for_scratch
        self.results = results
        self.tree = tree
        self.change = change
        self.is_one = isinstance(tree, Slot)

    def run(self, arguments, registers, out):
        """Return the results, or `out`; None to fall back to Python.

        Args:
            arguments: the arguments.
            registers: the registers; those of the first instructions are computed.
            out: the caller's arrays, or None.
        """
        views: cython.pointer(View) = arguments.views + arguments.count
        at: cython.pointer(cython.p_char) = arguments.at
        n: int64_t[64]
        kind: Kind
        result: ResultSpec
        refused: int32_t = 0
        local_moves: Move[16]
        donated: Range
        form: Form = self.form
        count: cython.int = len(self.results)
        if arguments.count + count > ARRAYS or len(self.constants) + len(self.scratch) > ARRAYS:
            return None
        donated.low = donated.high = cython.NULL
        outputs: list = []
        if out is not None and not match_slots(self.tree, out, outputs):
            return None
        after: cython.pointer(int64_t) = registers + self.tape.argument_count + self.first
        for k in range(count):
            result = self.results[k]
            kind = kind_of(result, arguments)
            for d in range(result.rank):
                n[d] = registers[result.n[d]]
            if out is None:
                try:
                    array = new_result(cython.address(kind), result.rank, n, cython.address(views[k]))
                except (MemoryError, ValueError):
                    return None
                if array is None:
                    return None
                outputs.append(array)
            else:
                fit = check_output(arguments, outputs[k], views, k, cython.address(kind), result.rank, n)
                if fit == 0:
                    return None
                if fit == 2:
                    donated = union_range(donated, array_range(cython.address(views[k]), kind.element))
            for d in range(result.rank):
                after[d] = views[k].strides[d]
            after += result.rank
        if not self.tape.run(registers, self.tape.first, self.tape.count):
            return None
        for k in range(arguments.count):
            at[k] = arguments.views[k].data
        j = arguments.count
        for k in range(count):
            at[j] = views[k].data
            j += 1
        for array in self.constants:
            at[j] = address(array)
            j += 1
        for k in range(len(self.scratch)):
            result_number: cython.int = self.results_for_scratch[k]
            uses_result: cython.bint = result_number >= 0
            if uses_result and out is not None:
                kind = kind_of(self.results[result_number], arguments)
                uses_result = is_packed(cython.address(views[result_number]), 0, kind.element)
            if uses_result:
                at[j] = views[result_number].data
            else:
                size: npy_intp = (registers[cython.cast(int64_t, self.scratch[k])] + 63) // 64 * 8
                array = new_array(1, cython.address(size), WORD)
                outputs.append(array)
                at[j] = address(array)
            j += 1
        moves: cython.pointer(Move) = local_moves
        if form.size > cython.cast(int64_t, cython.sizeof(local_moves)):
            memory = bytearray(form.size)
            moves = cython.cast(cython.pointer(Move), cython.cast(cython.p_char, memory))
        # New results may be written before indices are checked.
        filled = form.make_moves(registers, at, moves, cython.address(refused) if out is None else cython.NULL)
        if filled < 0:
            return None
        if out is not None:
            filled = remove_noops(moves, filled)
        if conflicts(moves, filled, donated):
            return None
        run(moves, filled, 0)
        if refused:
            return None
        if out is not None:
            for k in range(count):
                notify_written(outputs[k], arguments.kinds)
            return out
        return outputs[0] if self.is_one else fill_slots(self.tree, outputs)


class TracedCallable:
    """A callable with cached traces for each kind of arguments, the most recently used first.

    Calls that fit no trace go to `call_in_python`, a method of subclasses, with their `pattern` if no trace is expected
    to help them, for which `naming` is set after the first trace. `hits` counts calls that a trace has served. If the
    code of the function that `watch_code` got is replaced, all calls go there.
    """

    def __cinit__(self, *arguments):
        self.hits = 0
        self.watch_code(None)

    def watch_code(self, function):
        """Drop all traces; those that follow hold for the present code of a function of Python's own, if it is one."""
        self.traces = {}
        self.bytes = 0
        self.naming = -1
        self.function = function if type(function) is FunctionType else None
        self.code = None if self.function is None else self.function.__code__

    def is_outdated(self):
        """Return `has_new_code`, for compiled code."""
        return self.function is not None and PyFunction_GetCode(self.function) != cython.cast(
            cython.pointer(PyObject), self.code
        )

    def has_new_code(self):
        """Whether the function's code was replaced, as by notebooks that reload modules."""
        return self.is_outdated()

    def __call__(self, *arguments, out=None, **keywords):
        """Return the function's results."""
        if self.naming < 0 or self.is_outdated():
            return self.call_in_python(arguments, keywords, out, None)
        buffer: cython.pointer(Arguments) = borrow_buffer()
        buffer.naming = self.naming
        pattern = None
        try:
            if not read_arguments(buffer, arguments, keywords):
                may_fit: cython.bint = True
                results = self.run(buffer, out, cython.address(may_fit))
                if results is not None:
                    return results
                if not may_fit:
                    pattern = PyBytes_FromStringAndSize(buffer.pattern, buffer.pattern_length)
        finally:
            return_buffer(buffer)
        return self.call_in_python(arguments, keywords, out, pattern)

    def call_compiled(self, arguments: tuple, keywords: dict, out):
        """Return the results by a cached trace; None to fall back to Python."""
        buffer: cython.pointer(Arguments) = borrow_buffer()
        may_fit: cython.bint = True
        try:
            if read_arguments(buffer, arguments, keywords):
                return None
            return self.run(buffer, out, cython.address(may_fit))
        finally:
            return_buffer(buffer)

    def pattern(self, arguments: tuple, keywords: dict, naming: cython.int):
        """Return what the arguments have in common with those of similar calls; None if they cannot be read.

        Args:
            arguments: positional arguments.
            keywords: keyword arguments.
            naming: which floats, strings and other objects similar calls share: 0 for none, 1 for those outside
                structures, or 2 for all.
        """
        buffer: cython.pointer(Arguments) = borrow_buffer()
        buffer.naming = naming
        try:
            if read_arguments(buffer, arguments, keywords):
                return None
            return PyBytes_FromStringAndSize(buffer.pattern, buffer.pattern_length)
        finally:
            return_buffer(buffer)

    def run(self, buffer, out, may_fit):
        """Do a call as `call_compiled` does, with arguments that have been read.

        Args:
            buffer: the arguments.
            out: the caller's arrays, or None.
            may_fit: set to false if no trace is expected to help such calls: none has their key, or several have it,
                and none fits. Many functions have two cases, so that one trace may be followed by another.
        """
        local_registers: int64_t[512]
        entry = PyDict_GetItem(self.traces, PyBytes_FromStringAndSize(buffer.key, buffer.key_length))
        if entry == cython.NULL:
            may_fit[0] = False
            return None
        traces: list = cython.cast(list, entry)
        k: cython.Py_ssize_t = 0
        while k < len(traces):
            trace: CompiledTrace = traces[k]
            registers: cython.pointer(int64_t) = local_registers
            if trace.tape.registers > 512:
                memory = bytearray(8 * trace.tape.registers)
                registers = cython.cast(cython.pointer(int64_t), cython.cast(cython.p_char, memory))
            memcpy(registers, buffer.numbers, buffer.number_count * 8)
            if trace.tape.begin(registers) and (trace.change is None or trace.change() is None):
                # Another thread may have changed the list meanwhile.
                if 0 < k < len(traces) and traces[k] is trace:
                    traces.insert(0, traces.pop(k))
                self.hits += 1
                return trace.run(buffer, registers, out)
            k += 1
        may_fit[0] = len(traces) == 1
        return None

    def add_compiled(self, arguments: tuple, keywords: dict, trace: CompiledTrace):
        """Cache a compiled trace for calls with such arguments."""
        buffer: cython.pointer(Arguments) = borrow_buffer()
        try:
            if read_arguments(buffer, arguments, keywords):
                return
            key: bytes = PyBytes_FromStringAndSize(buffer.key, buffer.key_length)
            # While an object is kept, no other object gets its identity.
            trace.kept_objects = [cython.cast(object, buffer.objects[k]) for k in range(buffer.object_count)]
        finally:
            return_buffer(buffer)
        traces: list = self.traces.setdefault(key, [])
        if len(traces) == MAX_TRACES or self.bytes > MAX_BYTES:
            traces.clear()
            self.traces = {key: traces}
            self.bytes = 0
        self.bytes += FIXED_WEIGHT + CODE_WEIGHT * (trace.form.code_length + 5 * trace.tape.registers)
        for array in trace.constants:
            self.bytes += array.nbytes
        traces.insert(0, trace)


def kind_of(result, arguments):
    """Return the kind of a result: that of the argument that it is like, or NumPy's with the result's dtype."""
    kind: Kind = arguments.kinds[result.like if arguments.kinds[0].library != cython.NULL else 0]
    if kind.library == cython.NULL:
        kind.descr = cython.cast(cython.pointer(PyObject), result.dtype)
        kind.element = cython.cast(dtype, result.dtype).itemsize
    return kind
