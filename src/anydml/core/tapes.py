# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tapes: steps that work numbers out of others, and check them (see `anydml.tracing.tape`, which makes them)."""

import cython
from cython.cimports.anydml.core.program import new
from cython.cimports.cpython.mem import PyMem_Free
from cython.cimports.libc.stdint import int64_t

if not cython.compiled:
    raise ImportError("this module has to be compiled")


class Tape:
    """Steps in compiled form.

    Args:
        given: how many registers are filled in before the first step.
        steps: a kind and two numbers each.
    """

    def __cinit__(self, given: int64_t, steps: list):
        k: int64_t
        self.given = given
        self.count = len(steps)
        self.registers = given + self.count
        self.steps = cython.cast(cython.pointer(Step), new(self.count, cython.sizeof(Step)))
        for k in range(self.count):
            self.steps[k].kind, self.steps[k].a, self.steps[k].b = steps[k]

    def __dealloc__(self):
        PyMem_Free(self.steps)

    def run(self, found, first, last):
        """Do some steps; False where a guard does not hold, or a number has more than 64 bits."""
        k: int64_t
        a: int64_t
        b: int64_t
        step: cython.pointer(Step)
        to: cython.pointer(int64_t) = found + self.given
        for k in range(first, last):
            step = self.steps + k
            # As `anydml.tracing.tape` numbers them; what a call gives later stands there already.
            if step.kind == 0:
                to[k] = step.a
            elif step.kind == 1:
                if adds(found[step.a], found[step.b], to + k):
                    return False
            elif step.kind == 2:
                if multiplies(found[step.a], found[step.b], to + k):
                    return False
            elif step.kind == 3:
                a = found[step.a]
                b = found[step.b]
                if b == 0 or b == -1:
                    return False
                to[k] = a // b - (a % b != 0 and (a < 0) != (b < 0))
            elif step.kind == 5:
                if found[step.a] < step.b:
                    return False
            elif step.kind == 6:
                if found[step.a] > step.b:
                    return False
            elif step.kind == 7:
                if found[step.a] == step.b:
                    return False
            elif step.kind == 8 and found[step.a] % step.b != 0:
                return False
        return True
