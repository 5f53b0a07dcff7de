"""A region: consecutive nodes whose moves are composed to one program."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from anydml.engines import array_engine
from anydml.engines.program_cache import ProgramCache
from anydml.engines.protocol import CompiledCall
from anydml.moves.composer import CONSTANT, Composer
from anydml.moves.program import Program
from anydml.moves.value import Value
from anydml.onnx.graph_values import Array, Reservation, Tensor
from anydml.onnx.lowering import POSITION
from anydml.tracing.results_in_arguments import without_last_copies

MOVE_WEIGHT = 1024
"""Approximate memory in bytes of a move in a program's key."""

PROGRAMS = ProgramCache()
"""Compiled programs of regions."""


class Compiled(NamedTuple):
    """A region's program, compiled.

    Attributes:
        program: the compiled program; None if it has no moves.
        own_bytes: size in bytes of its scratch memory and constants.
        weight: approximate memory in bytes while cached.
    """

    program: CompiledCall | None
    own_bytes: int
    weight: int


class Region(Composer):
    """Consecutive nodes that are composed to one program.

    Attributes:
        sources: the arrays that the program reads, by input number.
        references: weak references to the results that are composed in the region.
        nodes: labels of its nodes.
        pieces: total number of pieces of its values.
        work: total number of factors that its nodes composed.
        reservations: holds the arrays that nodes created for it in the budget.
        texts: arrays of strings that it moves by position, in order.
    """

    def __init__(self) -> None:
        super().__init__("onnx")
        self.sources: list[Array] = []
        self.references: list[weakref.ref[Tensor]] = []
        self.nodes: list[str] = []
        self.pieces = 0
        self.work = 0
        self.reservations: list[Reservation] = []
        self.texts: list[Array] = []
        self._positions = 0

    def source(self, array: Array) -> Value:
        """Add an array as an input of the program."""
        if array.dtype.hasobject:
            array = self.positions_of(array)
        self.sources.append(array)
        return self.input(f"source {len(self.sources) - 1}", array.shape, array.strides, array.itemsize)

    def positions_of(self, texts: Array) -> Array:
        """Return the positions of strings among all strings of the region, as INT64."""
        first = self._positions
        self.texts.append(texts.reshape(-1))
        self._positions += texts.size
        return np.arange(first, self._positions, dtype=POSITION).reshape(texts.shape)

    def whole_program(self) -> Program:
        """Return the program; results that are overwritten are written in place."""
        return without_last_copies(self.program())

    def compiled(self) -> Compiled:
        """Compile the program, or return a cached program with equal moves; a program with constants is not cached."""
        # Operand counts are part of the key, since outputs may have no moves.
        key = None if self._counts[CONSTANT] else (*self._moves, *self._counts.values(), self.total_scratch_bytes())
        return self._compile() if key is None else PROGRAMS.find(key, self._compile)

    def _compile(self) -> Compiled:
        program = self.whole_program()
        engine_program = array_engine(program.name, []).compile_program(program) if program.moves else None
        own_bytes = program.scratch_bytes + program.constant_bytes
        weight = own_bytes + MOVE_WEIGHT * len(program.moves) + (engine_program.weight if engine_program else 0)
        return Compiled(engine_program, own_bytes, weight)

    def results(self) -> list[Tensor]:
        """Return the live results in the order of the program's outputs."""
        alive = [tensor for reference in self.references if (tensor := reference()) is not None]
        return [tensor for tensor in alive if tensor.array is None]
