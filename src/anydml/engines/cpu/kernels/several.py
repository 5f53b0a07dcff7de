"""Several kernel calls as the units of one: whole steps for threads to share, each too small to be shared itself."""

from __future__ import annotations

from functools import cache

from anydml.engines.cpu.kernels.atomics import call_kernel
from anydml.engines.cpu.kernels.driver import HEADER, UNITS, UNITS_PER_CLAIM, claim, code_of, compiled, word
from anydml.engines.cpu.kernels.ir import load
from anydml.engines.cpu.kernels.language import uint64
from anydml.engines.cpu.kernels.loading import Kernel

CODE = code_of("atomics.py")
"""Part of the name of what is compiled here."""

ALL = 1 << 62
PAIR = 16
"""Bytes of the table for a step, after the header: its kernel's address, and its table's."""


@cache
def several_kernel() -> Kernel:
    """The kernel that calls others; a unit is all of one's work."""

    def several(table, counter, chunks):
        units, step = word(table, UNITS), word(table, UNITS_PER_CLAIM)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                pair = table + uint64(8 * HEADER) + uint64(PAIR) * unit
                call_kernel(load(pair), word(pair, 1), uint64(0), uint64(ALL))
        return uint64(1)

    return compiled(several, CODE)
