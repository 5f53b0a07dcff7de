"""Compile the programs of regions, with a cache keyed by their moves."""

from __future__ import annotations

from anydml.engines import array_engine
from anydml.engines.program_cache import ProgramCache
from anydml.moves.program import Program
from anydml.onnx.region import Region

MOVE_WEIGHT = 1024
"""Approximate memory in bytes of a program and its key, per move."""

PROGRAMS = ProgramCache()
"""Compiled programs by the keys of their regions."""


class Compiled:
    """A region's program, compiled.

    Attributes:
        program: the program.
        own_bytes: size in bytes of its scratch memory and constants.
        compiled: the compiled program; None if it has no moves.
    """

    __slots__ = ("compiled", "own_bytes", "program")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.own_bytes = program.scratch_bytes + program.constant_bytes
        self.compiled = array_engine(program.name, []).compile_program(program) if program.moves else None

    @property
    def weight(self) -> int:
        """Approximate memory in bytes while cached."""
        own: int = MOVE_WEIGHT * (1 + 2 * len(self.program.moves)) + self.own_bytes
        return own + (self.compiled.weight if self.compiled else 0)


def compiled_of(region: Region) -> Compiled:
    """Compile a region's program, or return a cached one with equal moves. Programs with constants are not cached."""
    key = region.key()
    made: Compiled | None = None if key is None else PROGRAMS.get(key)
    if made is None:
        made = Compiled(region.program())
        if key is not None:
            PROGRAMS.keep(key, made)
    return made
