"""Programs over arrays in chunks: as values, and as the moves between whole arrays that explanations show."""

from __future__ import annotations

from collections.abc import Mapping as Numbered
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from anydml.moves.compose import INPUT, Composer
from anydml.moves.move import Access
from anydml.moves.program import Program
from anydml.moves.value import Value
from anydml.stores.planning.coordinates import coordinates
from anydml.stores.planning.regions import RegionMap
from anydml.tensor import Layout


class ComposedProgram(NamedTuple):
    """Outputs as values over inputs with the strides of `far_strides`.

    Attributes:
        name: of the program, for errors.
        composer: that made the values.
        values: one per output.
    """

    name: str
    composer: Composer
    values: Sequence[Value]

    @property
    def constants(self) -> dict[int, np.ndarray[Any, Any]]:
        """Constants of the composer, by the numbers of its operands."""
        operands = self.composer._operands.items()
        return {number: np.asarray(each.value) for number, each in operands if each.role == "constant"}

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants."""
        return sum(each.nbytes for each in self.constants.values())


def strides_of(array: Any) -> tuple[int, ...]:
    """Strides of an array in a program, in bytes: those of a plain file, otherwise packed ones."""
    own: tuple[int, ...] | None = getattr(array, "strides", None)
    return Layout.packed(array.shape, array.dtype.itemsize).strides if own is None else own


def program_between(
    name: str,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Numbered[int, Any],
    mappings: Sequence[RegionMap],
) -> Program:
    """The program from whole inputs to whole outputs.

    Args:
        name: the program's name.
        inputs: stores, in the order of the operands.
        outputs: targets, one per mapping.
        constants: bytes of the constants, by operand.
        mappings: the outputs' values, over inputs with far strides.
    """
    composer = Composer(name)
    strides = {INPUT + k: strides_of(store) for k, store in enumerate(inputs)}
    for k, store in enumerate(inputs):
        composer.input(str(store.path), store.shape, strides[INPUT + k], store.dtype.itemsize)
    for _, array in sorted(constants.items()):
        composer.constant("constant", np.asarray(array))

    def near(source: Any) -> Any:
        if not isinstance(source, Access) or source.operand not in strides:
            return source
        own = strides[source.operand]

        def in_bytes(address: int) -> int:
            return sum(step * stride for step, stride in zip(coordinates(address, len(own)), own, strict=True))

        return source._replace(offset=in_bytes(source.offset), strides=tuple(map(in_bytes, source.strides)))

    for target, mapping in zip(outputs, mappings, strict=True):
        pieces = tuple(piece._replace(source=near(piece.source)) for piece in mapping.value.pieces)
        composer.output(str(target.path), replace(mapping.value, pieces=pieces))
    return composer.program()
