"""Tapes: instructions that compute and check numbers; `anydml.tracing.tape` builds them."""

import cython
from cython.cimports.anydml.core.forms import allocate_zeroed
from cython.cimports.cpython.mem import PyMem_Free
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcpy


class Tape:
    """Instructions in compiled form.

    Args:
        given: number of registers that are set before the first instruction.
        instructions: a kind and two numbers each, as in `anydml.tracing.tape`.
        first: number of instructions before those that need the results' strides.
    """

    def __cinit__(self, given: int64_t, instructions: list, first: int64_t):
        instruction: cython.pointer(Instruction)
        self.given = given
        self.registers = given + len(instructions)
        self.instructions = cython.cast(
            cython.pointer(Instruction), allocate_zeroed(len(instructions), cython.sizeof(Instruction))
        )
        self.constants = cython.cast(cython.pointer(int64_t), allocate_zeroed(len(instructions), 8))
        for k in range(len(instructions)):
            if k == first:
                self.first = self.count
            kind, a, b = instructions[k]
            if kind == CONSTANT:
                # Constants are in their registers from the start.
                self.constants[k] = a
            elif kind != GIVEN:
                instruction = self.instructions + self.count
                instruction.kind = kind
                instruction.to = given + k
                instruction.a = a
                instruction.b = b
                self.count += 1
        if first >= len(instructions):
            self.first = self.count

    def __dealloc__(self):
        PyMem_Free(self.instructions)
        PyMem_Free(self.constants)

    def begin(self, found):
        """Run the instructions before those that need the results' strides; returns as `run`."""
        memcpy(found + self.given, self.constants, 8 * (self.registers - self.given))
        return self.run(found, 0, self.first)

    def end(self, found):
        """Run the other instructions; returns as `run`."""
        return self.run(found, self.first, self.count)

    def run(self, found, first, last):
        """Run some instructions; returns False if a guard fails, or a number may exceed 64 bits."""
        instruction: cython.pointer(Instruction)
        for k in range(first, last):
            instruction = self.instructions + k
            if instruction.kind == ADD:
                if adds(found[instruction.a], found[instruction.b], found + instruction.to):
                    return False
            elif instruction.kind == MULTIPLY:
                if multiplies(found[instruction.a], found[instruction.b], found + instruction.to):
                    return False
            elif instruction.kind == FLOOR:
                a = found[instruction.a]
                b = found[instruction.b]
                if b == 0 or b == -1:
                    return False
                found[instruction.to] = a // b - (a % b != 0 and (a < 0) != (b < 0))
            elif instruction.kind == AT_LEAST:
                if found[instruction.a] < instruction.b:
                    return False
            elif instruction.kind == AT_MOST:
                if found[instruction.a] > instruction.b:
                    return False
            elif instruction.kind == DIFFERS:
                if found[instruction.a] == instruction.b:
                    return False
            elif instruction.kind == LARGER:
                a = found[instruction.a]
                b = found[instruction.b]
                found[instruction.to] = a if a > b else b
            elif found[instruction.a] % instruction.b != 0:
                return False
        return True
