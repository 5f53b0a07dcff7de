"""DML_OPERATOR_TILE: a tensor, repeated along its dimensions (DML_TILE_OPERATOR_DESC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves import Access, Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.types import FLOATS_16_AND_32, NO_FLOAT64, TYPES_8_TO_32, table
from anydml.tensor import Layout, TensorDesc


@dataclass(frozen=True, slots=True)
class TileOperatorDesc(OperatorDesc):
    """DML_TILE_OPERATOR_DESC: ``output[c] = input[c mod InputTensor.Sizes]``.

    Args:
        input_tensor: the tensor to repeat.
        output_tensor: its sizes are the input's times `repeats`.
        repeats: how often, at least 1, one a dimension.
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    repeats: tuple[int, ...]

    OPERATOR: ClassVar[str] = "DML_TILE"
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor",)
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)
    SUPPORT: ClassVar[SupportTable] = table(
        ("InputTensor", "OutputTensor"),
        # Its page lists no FLOAT64.
        (FeatureLevel.LEVEL_4_1, 1, 8, NO_FLOAT64),
        (FeatureLevel.LEVEL_3_1, 1, 8, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_2_1, 4, 4, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_1_0, 4, 4, FLOATS_16_AND_32),
    )

    def __init__(self, input_tensor: TensorDesc, output_tensor: TensorDesc, repeats: Sequence[int]) -> None:
        self._put(input_tensor=input_tensor, output_tensor=output_tensor, repeats=repeats)

    def constraints(self) -> Iterator[Problem]:
        """Same DataType and DimensionCount; sizes that are multiples."""
        yield from self._same_kind("input_tensor", "output_tensor")
        yield from self.one_a_dimension("Repeats", self.repeats, len(self.input_tensor.sizes))
        expected = tuple(size * n for size, n in zip(self.input_tensor.sizes, self.repeats, strict=False))
        yield from self.sizes_are("OutputTensor", self.output_tensor, expected, "sizes are InputTensor's times Repeats")

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """One move; the source stands still from one repetition to the next."""
        source, output = layouts or self.layouts()
        sizes: list[int] = []
        to: list[int] = []
        start: list[int] = []
        for size, n, step, own in zip(source.sizes, self.repeats, output.strides, source.strides, strict=True):
            sizes += (n, size)
            to += (size * step, step)
            start += (0, own)
        return (Move(tuple(sizes), Access(1, 0, tuple(to)), Access(0, 0, tuple(start)), source.element_size),)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[c] = input[c mod InputTensor.Sizes]``."""
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            yield 1, at, 0, tuple(c % size for c, size in zip(at, self.input_tensor.sizes, strict=True))
