"""Tapes: steps that compute numbers from others, and check them (see `anydml.tracing.tape`, which builds them)."""

import cython
from cython.cimports.anydml.core.forms import allocate_zeroed
from cython.cimports.cpython.mem import PyMem_Free
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcpy


class Tape:
    """Steps in compiled form.

    Args:
        given: number of registers that are set before the first step.
        steps: a kind and two numbers each, as in `anydml.tracing.tape`.
        first: number of steps before those that need the results' strides.
    """

    def __cinit__(self, given: int64_t, steps: list, first: int64_t):
        k: int64_t
        step: cython.pointer(Step)
        self.given = given
        self.registers = given + len(steps)
        self.steps = cython.cast(cython.pointer(Step), allocate_zeroed(len(steps), cython.sizeof(Step)))
        self.constants = cython.cast(cython.pointer(int64_t), allocate_zeroed(len(steps), 8))
        for k in range(len(steps)):
            if k == first:
                self.first = self.count
            kind, a, b = steps[k]
            if kind == 0:
                # Constants are in their registers from the start.
                self.constants[k] = a
            elif kind != 4:
                step = self.steps + self.count
                step.kind = kind
                step.to = given + k
                step.a = a
                step.b = b
                self.count += 1
        if first >= len(steps):
            self.first = self.count

    def __dealloc__(self):
        PyMem_Free(self.steps)
        PyMem_Free(self.constants)

    def begin(self, found):
        """Run the steps before those that need the results' strides; returns as `run`."""
        memcpy(found + self.given, self.constants, 8 * (self.registers - self.given))
        return self.run(found, 0, self.first)

    def end(self, found):
        """Run the other steps; returns as `run`."""
        return self.run(found, self.first, self.count)

    def run(self, found, first, last):
        """Run some steps; returns False if a guard fails, or a number may exceed 64 bits."""
        k: int64_t
        a: int64_t
        b: int64_t
        step: cython.pointer(Step)
        for k in range(first, last):
            step = self.steps + k
            # Kinds are numbered as in `anydml.tracing.tape`.
            if step.kind == 1:
                if adds(found[step.a], found[step.b], found + step.to):
                    return False
            elif step.kind == 2:
                if multiplies(found[step.a], found[step.b], found + step.to):
                    return False
            elif step.kind == 3:
                a = found[step.a]
                b = found[step.b]
                if b == 0 or b == -1:
                    return False
                found[step.to] = a // b - (a % b != 0 and (a < 0) != (b < 0))
            elif step.kind == 5:
                if found[step.a] < step.b:
                    return False
            elif step.kind == 6:
                if found[step.a] > step.b:
                    return False
            elif step.kind == 7:
                if found[step.a] == step.b:
                    return False
            elif step.kind == 9:
                a = found[step.a]
                b = found[step.b]
                found[step.to] = a if a > b else b
            elif found[step.a] % step.b != 0:
                return False
        return True
