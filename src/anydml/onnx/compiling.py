"""Programs of regions, compiled once for all regions that move alike."""

from __future__ import annotations

from anydml.engines import array_engine
from anydml.engines.program_cache import ProgramCache
from anydml.moves.program import Program
from anydml.onnx.region import Region

MOVE_WEIGHT = 1024
"""Bytes that a program and its key keep for each move, about."""

PROGRAMS = ProgramCache()
"""Programs compiled before, by their moves."""


class Compiled:
    """A region's program, compiled.

    Attributes:
        program: the program.
        own_bytes: of its scratch and its constants.
        compiled: None where nothing moves.
    """

    __slots__ = ("compiled", "own_bytes", "program")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.own_bytes = program.scratch_bytes + program.constant_bytes
        self.compiled = array_engine(program.name, []).compile_program(program) if program.moves else None

    @property
    def weight(self) -> int:
        """Bytes that are kept, about."""
        own: int = MOVE_WEIGHT * (1 + 2 * len(self.program.moves)) + self.own_bytes
        return own + (self.compiled.weight if self.compiled else 0)


def compiled_of(region: Region) -> Compiled:
    """A region's program; two are the same where their moves are, and they have no constants."""
    key = region.key()
    made: Compiled | None = None if key is None else PROGRAMS.get(key)
    if made is None:
        made = Compiled(region.program())
        if key is not None:
            PROGRAMS.keep(key, made)
    return made
