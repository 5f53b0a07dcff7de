"""Calls of fused functions: matched to a trace by their arguments, and run up to the results.

Unusual calls are left to Python, which reports errors, before any of the caller's arrays is written.
"""

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
from cython.cimports.cpython.ref import PyObject
from cython.cimports.libc.stdint import int32_t
from cython.cimports.libc.string import memcpy
from cython.cimports.numpy import dtype, import_array, npy_intp

import_array()

MAX_TRACES = cython.declare(int64_t, 64)
MAX_BYTES = cython.declare(int64_t, 32 << 20)
"""Limits of cached traces, beyond which all are dropped: number per key, and approximate bytes per function."""

FIXED_WEIGHT = cython.declare(int64_t, 1024)
CODE_WEIGHT = cython.declare(int64_t, 8)
"""Approximate bytes of a call: fixed, and per number of its code."""

WORD = np.dtype(np.uint64)


class Result:
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


class Call:
    """A trace in compiled form.

    Args:
        tape: computes all numbers.
        first: number of instructions before the results' strides, whose registers come next, result by result.
        form: the moves, between inputs, results, constants and scratch.
        constants: arrays.
        scratch: registers of the scratch operands' sizes in bytes.
        results_for_scratch: by scratch operand, the result whose memory it may use if packed; −1 if it needs its own.
        results: a `Result` each.
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
        result: Result
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
                after[d] = views[k].s[d]
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
            number: cython.int = self.results_for_scratch[k]
            uses_result: cython.bint = number >= 0
            if uses_result and out is not None:
                kind = kind_of(self.results[number], arguments)
                uses_result = is_packed(cython.address(views[number]), 0, kind.element)
            if uses_result:
                at[j] = views[number].data
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


class Calls:
    """A callable with cached traces for each kind of arguments, the most recently used first.

    Calls that fit no trace go to `call_in_python`, a method of subclasses. `hits` counts those that a trace has served.
    """

    def __cinit__(self, *arguments):
        self.traces = {}
        self.bytes = 0
        self.hits = 0

    def __call__(self, *arguments, out=None, **keywords):
        """Return the function's results."""
        results = Calls.call_compiled(self, arguments, keywords, out)
        return self.call_in_python(arguments, keywords, out) if results is None else results

    def call_compiled(self, arguments: tuple, keywords: dict, out):
        """Return the results by a cached trace; None to fall back to Python."""
        if not self.traces:
            return None
        buffer: cython.pointer(Arguments) = borrow_buffer()
        try:
            return None if read_arguments(buffer, arguments, keywords) else self.run(buffer, out)
        finally:
            return_buffer(buffer)

    def form(self, arguments: tuple, keywords: dict, naming: cython.int):
        """Return what the arguments have in common with those of similar calls; None if they cannot be read.

        Args:
            arguments: positional arguments.
            keywords: keyword arguments.
            naming: which floats, texts and other objects similar calls share: 0 for none, 1 for those outside
                structures, or 2 for all.
        """
        buffer: cython.pointer(Arguments) = borrow_buffer()
        buffer.naming = naming
        try:
            return (
                None
                if read_arguments(buffer, arguments, keywords)
                else PyBytes_FromStringAndSize(buffer.form, buffer.form_length)
            )
        finally:
            return_buffer(buffer)

    def form_without_trace(self, arguments: tuple, keywords: dict, naming: cython.int):
        """Return the `form` of arguments for which no trace is expected to help; None if one may.

        That is, none has the same key, or several have it and none fits: many functions have two cases.
        """
        buffer: cython.pointer(Arguments) = borrow_buffer()
        buffer.naming = naming
        try:
            if read_arguments(buffer, arguments, keywords):
                return None
            entry = PyDict_GetItem(self.traces, PyBytes_FromStringAndSize(buffer.key, buffer.key_length))
            if entry != cython.NULL:
                calls: list = cython.cast(list, entry)
                if len(calls) == 1:
                    return None
                for call_ in tuple(calls):
                    call: Call = call_
                    memory = bytearray(8 * call.tape.registers)
                    registers = cython.cast(cython.pointer(int64_t), cython.cast(cython.p_char, memory))
                    memcpy(registers, buffer.numbers, buffer.number_count * 8)
                    if call.tape.begin(registers) and (call.change is None or call.change() is None):
                        return None
            return PyBytes_FromStringAndSize(buffer.form, buffer.form_length)
        finally:
            return_buffer(buffer)

    def run(self, buffer, out):
        """Do a call as `call_compiled` does, with arguments that have been read."""
        local_registers: int64_t[512]
        entry = PyDict_GetItem(self.traces, PyBytes_FromStringAndSize(buffer.key, buffer.key_length))
        if entry == cython.NULL:
            return None
        calls: list = cython.cast(list, entry)
        k: cython.Py_ssize_t = 0
        while k < len(calls):
            call: Call = calls[k]
            registers: cython.pointer(int64_t) = local_registers
            if call.tape.registers > 512:
                memory = bytearray(8 * call.tape.registers)
                registers = cython.cast(cython.pointer(int64_t), cython.cast(cython.p_char, memory))
            memcpy(registers, buffer.numbers, buffer.number_count * 8)
            if call.tape.begin(registers) and (call.change is None or call.change() is None):
                # Another thread may have changed the list meanwhile.
                if 0 < k < len(calls) and calls[k] is call:
                    calls.insert(0, calls.pop(k))
                self.hits += 1
                return call.run(buffer, registers, out)
            k += 1
        return None

    def add_compiled(self, arguments: tuple, keywords: dict, call: Call):
        """Cache a compiled trace for calls with such arguments."""
        buffer: cython.pointer(Arguments) = borrow_buffer()
        try:
            if read_arguments(buffer, arguments, keywords):
                return
            key: bytes = PyBytes_FromStringAndSize(buffer.key, buffer.key_length)
            # No other object gets the identity of one that is kept.
            call.kept_objects = [cython.cast(object, buffer.objects[k]) for k in range(buffer.object_count)]
        finally:
            return_buffer(buffer)
        calls: list = self.traces.setdefault(key, [])
        if len(calls) == MAX_TRACES or self.bytes > MAX_BYTES:
            calls.clear()
            self.traces = {key: calls}
            self.bytes = 0
        self.bytes += FIXED_WEIGHT + CODE_WEIGHT * (call.form.code_length + 5 * call.tape.registers)
        for array in call.constants:
            self.bytes += array.nbytes
        calls.insert(0, call)


def kind_of(result, arguments):
    """The kind of a result: that of the argument it is like, or NumPy's with its dtype."""
    kind: Kind = arguments.kinds[result.like if arguments.kinds[0].library != cython.NULL else 0]
    if kind.library == cython.NULL:
        kind.descr = cython.cast(cython.pointer(PyObject), result.dtype)
        kind.element = cython.cast(dtype, result.dtype).itemsize
    return kind
