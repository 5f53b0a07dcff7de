"""DML_OPERATOR_JOIN: several tensors into one along an axis (DML_JOIN_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves import Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.parts import part_elements, part_moves, part_problems
from anydml.operators.types import ALL_TYPES, TYPES_8_TO_32, TYPES_16_AND_32, table
from anydml.tensor import Layout, TensorDesc


@dataclass(frozen=True, slots=True)
class JoinOperatorDesc(OperatorDesc):
    """DML_JOIN_OPERATOR_DESC: the inverse of SPLIT.

    Args:
        input_tensors: at least one; sizes as the output's but along `axis`, where they add up to it.
        output_tensor: the tensor to write.
        axis: 0 to DimensionCount − 1.
    """

    input_tensors: tuple[TensorDesc, ...]
    output_tensor: TensorDesc
    axis: int

    OPERATOR: ClassVar[str] = "DML_JOIN"
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensors",)
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)
    SUPPORT: ClassVar[SupportTable] = table(
        ("InputTensors", "OutputTensor"),
        (FeatureLevel.LEVEL_4_1, 1, 8, ALL_TYPES),
        # Not on the operator's page, but in DirectML's release notes and its feature-level history.
        (FeatureLevel.LEVEL_3_1, 1, 8, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_3_0, 4, 5, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_2_1, 4, 4, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_1_0, 4, 4, TYPES_16_AND_32),
    )

    def __init__(self, input_tensors: Sequence[TensorDesc], output_tensor: TensorDesc, axis: int) -> None:
        self._put(input_tensors=input_tensors, output_tensor=output_tensor, axis=axis)

    def constraints(self) -> Iterator[Problem]:
        """Same DataType and DimensionCount; Axis in range; parts that add up."""
        kinds = [*self._same_kind("output_tensor", "input_tensors")]
        broken = [*kinds, *self._axis(self.axis, len(self.output_tensor.sizes), "OutputTensor")]
        yield from broken
        if not any(p.field == "Axis" or p.field.endswith(".Sizes") for p in broken):
            yield from part_problems(self, self.outputs[0], self.inputs, self.axis)

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """One move an input; the destination starts further along Axis each time."""
        *parts, whole = layouts or self.layouts()
        return part_moves((len(parts), whole), tuple(enumerate(parts)), self.axis, into_whole=True)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[..., start of k + i, ...] = input[k][..., i, ...]``."""
        for part, at, inside in part_elements(self.input_tensors, self.axis):
            yield len(self.input_tensors), inside, part, at
