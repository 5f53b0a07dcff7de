"""Tapes: instructions that compute and check numbers; `anydml.tracing.tape` builds them."""

import cython
from cython.cimports.libc.string import memcpy


class Tape:
    """Instructions in compiled form.

    Args:
        argument_count: number of registers that are set before the first instruction.
        instructions: a kind and two numbers each, as in `anydml.tracing.tape`.
        first: number of instructions before those that need the results' strides.
    """

    def __cinit__(self, argument_count: int64_t, instructions: list, first: int64_t):
        codes: list = []
        constants: list = [0] * len(instructions)
        self.argument_count = argument_count
        self.registers = argument_count + len(instructions)
        for k in range(len(instructions)):
            if k == first:
                self.first = len(codes) // 4
            kind, a, b = instructions[k]
            if kind == CONSTANT:
                # Constants are in their registers from the start.
                constants[k] = a
            elif kind != PROVIDED:
                codes += [kind, argument_count + k, a, b]
        self.count = len(codes) // 4
        if first >= len(instructions):
            self.first = self.count
        self.instruction_bytes = bytearray(8 * (len(codes) + len(constants)))
        numbers: cython.pointer(int64_t) = cython.cast(
            cython.pointer(int64_t), cython.cast(cython.p_char, self.instruction_bytes)
        )
        for k in range(len(codes)):
            numbers[k] = codes[k]
        self.instructions = cython.cast(cython.pointer(Instruction), numbers)
        self.constants = numbers + len(codes)
        for k in range(len(constants)):
            self.constants[k] = constants[k]

    def begin(self, registers):
        """Run the instructions up to the first one that needs the results' strides; returns as `run`."""
        memcpy(registers + self.argument_count, self.constants, 8 * (self.registers - self.argument_count))
        return self.run(registers, 0, self.first)

    def run(self, registers, first, last):
        """Run some instructions; returns False if a guard fails, or a number may exceed 64 bits."""
        for k in range(first, last):
            instruction = self.instructions + k
            to = registers + instruction.to
            a = registers[instruction.a]
            is_wrong: cython.bint = False
            if instruction.kind == ADD:
                is_wrong = adds(a, registers[instruction.b], to)
            elif instruction.kind == SUBTRACT:
                is_wrong = subtracts(a, registers[instruction.b], to)
            elif instruction.kind == MULTIPLY:
                is_wrong = multiplies(a, registers[instruction.b], to)
            elif instruction.kind == FLOOR:
                b = registers[instruction.b]
                # A division by −1 overflows for the lowest integer.
                is_wrong = b == 0 or (b == -1 and subtracts(0, a, to))
                if not (is_wrong or b == -1):
                    to[0] = a // b - (a % b != 0 and (a < 0) != (b < 0))
            elif instruction.kind == LARGER:
                to[0] = max(a, registers[instruction.b])
            elif instruction.kind == SMALLER:
                to[0] = min(a, registers[instruction.b])
            elif instruction.kind == AT_LEAST:
                is_wrong = a < instruction.b
            elif instruction.kind == AT_MOST:
                is_wrong = a > instruction.b
            else:
                is_wrong = a == instruction.b
            if is_wrong:
                return False
        return True
