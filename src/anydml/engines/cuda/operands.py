"""Operands that the engine provides: constants, scratch, and its own tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anydml.engines.cuda.memory import ALIGNMENT, Array, HostMemory, Memory, reserve, upload
from anydml.engines.cuda.schedule import BLOCK
from anydml.memory.host import address_of
from anydml.moves import Constant, Program
from anydml.moves.constant import as_bytes


class Operands(NamedTuple):
    """All operands of one binding.

    Attributes:
        addresses: the operands' addresses for kernels.
        arrays: the operands as arrays; those on the host are NumPy's.
        memory: GPU memory that was allocated for them.
        findings: the memory that checks of indices write; None if there are no checks.
    """

    addresses: list[int]
    arrays: list[Array]
    memory: tuple[Memory | HostMemory, ...]
    findings: Memory | HostMemory | None


class OperandProvider:
    """Provides the operands of bindings. Constants are uploaded once; every binding has its own scratch.

    Args:
        program: the program; None if the caller binds all operands.
        tables: bytes of the table of winners, and of findings.
        gpu: the GPU's number; None for the interpreter.
    """

    def __init__(self, program: Program | None, tables: tuple[int, int], gpu: int | None) -> None:
        self.gpu = gpu
        self.bound = None if program is None else program.count("input") + program.count("output")
        program_operands = () if program is None else program.operands[self.bound :]
        self._values: list[Constant] = [operand.value for operand in program_operands if operand.value is not None]
        self._scratch = [
            (operand.size, operand.is_on_host) for operand in program_operands if operand.role == "scratch"
        ]
        self._winners, self._findings = tables
        self._constants: Memory | HostMemory | None = None
        ones = [np.full(BLOCK, 0xFF, np.uint8)] if any(tables) else []
        self._blocks = [*map(as_bytes, self._values), *ones]

    def sizes(self) -> list[tuple[str, int]]:
        """Return the kinds of allocated memory and their bytes."""
        constants = sum(value.nbytes for value in self._values)
        scratch = sum(size for size, is_on_host in self._scratch if not is_on_host)
        return [("constants", constants), ("scratch", scratch), ("who writes last", self._winners)]

    def operands(self, bound: Sequence[Array]) -> Operands:
        """Return all operands for the inputs and outputs of one binding; uploads may still be in progress."""
        bound = [*bound] if self.bound is None else [*bound[: self.bound]]
        memory: list[Memory | HostMemory] = []
        constants: list[int] = []
        if self._blocks:
            if self._constants is None:
                self._constants = upload(_join(self._blocks), self.gpu)
            memory.append(self._constants)
            starts = _starts([block.nbytes for block in self._blocks])
            constants = [self._constants.address + start for start in starts[:-1]]
        sizes = [0 if is_on_host else size for size, is_on_host in self._scratch]
        sizes.append(self._winners)
        scratch = _starts(sizes)
        if scratch[-1]:
            memory.append(reserve(scratch[-1], self.gpu))
            scratch = [memory[-1].address + start for start in scratch]
        findings = reserve(self._findings, self.gpu) if self._findings else None
        if findings:
            memory.append(findings)
        arrays = [*bound, *map(np.asarray, self._values)]
        arrays += [np.empty(size if is_on_host else 0, np.uint8) for size, is_on_host in self._scratch]
        # The engine's own operands are numbered from the end (see `schedule`).
        *scratch, winners, _ = scratch
        count = len(self._values)
        ones = constants[count] if len(constants) > count else 0
        engine_addresses = [findings.address if findings else 0, ones, winners]
        addresses = [*map(address_of, bound), *constants[:count], *scratch, *engine_addresses]
        return Operands(addresses, arrays, tuple(memory), findings)


def _round_up(size: int) -> int:
    return math.ceil(size / ALIGNMENT) * ALIGNMENT


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return the starts of consecutive blocks, and the end of the last."""
    return [0, *itertools.accumulate(map(_round_up, sizes))]


def _join(blocks: Sequence[Constant]) -> Array:
    starts = _starts([block.nbytes for block in blocks])
    joined = np.zeros(starts[-1], np.uint8)
    for block, start in zip(blocks, starts, strict=False):
        joined[start : start + block.nbytes] = np.asarray(block)
    return joined
