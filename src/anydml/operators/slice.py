"""DML_OPERATOR_SLICE: every n-th element from an offset (DML_SLICE_OPERATOR_DESC), SLICE1's older neighbour."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves import Access, Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.types import ALL_TYPES, TYPES_8_TO_32, TYPES_16_AND_32, table
from anydml.tensor import Layout, TensorDesc


def slice_moves(source: Layout, destination: Layout, starts: Sequence[int], steps: Sequence[int]) -> tuple[Move, ...]:
    """``destination[c] = source[starts + steps · c]``: one move; operand 0 is read, operand 1 written."""
    offset = sum(start * stride for start, stride in zip(starts, source.strides, strict=True))
    strides = tuple(step * stride for step, stride in zip(steps, source.strides, strict=True))
    return (
        Move(destination.sizes, Access(1, 0, destination.strides), Access(0, offset, strides), source.element_size),
    )


@dataclass(frozen=True, slots=True)
class SliceOperatorDesc(OperatorDesc):
    """DML_SLICE_OPERATOR_DESC: ``Output[c] = Input[Offsets + Strides · c]``.

    Args:
        input_tensor: the tensor to read.
        output_tensor: the tensor to write; its sizes are `sizes`.
        offsets: first coordinate, one a dimension.
        sizes: elements to take, one a dimension.
        strides: distance between taken elements, at least 1, one a dimension.
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    OPERATOR: ClassVar[str] = "DML_SLICE"
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor",)
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)
    SUPPORT: ClassVar[SupportTable] = table(
        ("InputTensor", "OutputTensor"),
        (FeatureLevel.LEVEL_4_1, 1, 8, ALL_TYPES),
        (FeatureLevel.LEVEL_3_0, 1, 8, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_2_1, 4, 5, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_1_0, 4, 5, TYPES_16_AND_32),
    )

    def __init__(
        self,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int],
    ) -> None:
        self._put(input_tensor=input_tensor, output_tensor=output_tensor, offsets=offsets, sizes=sizes, strides=strides)

    def constraints(self) -> Iterator[Problem]:
        """Same DataType and DimensionCount; Sizes are the output's; Strides ≥ 1; nothing read outside the input."""
        count = len(self.input_tensor.sizes)
        yield from self._same_kind("input_tensor", "output_tensor")
        yield from self.one_a_dimension("Offsets", self.offsets, count)
        yield from self.one_a_dimension("Sizes", self.sizes, count)
        yield from self.one_a_dimension("Strides", self.strides, count)
        if self.sizes != self.output_tensor.sizes:
            message = f"Sizes is {list(self.sizes)}, but OutputTensor.Sizes is {list(self.output_tensor.sizes)}"
            yield self.problem("Sizes", message, "Sizes equals OutputTensor.Sizes")
        inputs, windows = self.input_tensor.sizes, zip(self.offsets, self.sizes, self.strides, strict=False)
        for i, (whole, (offset, size, stride)) in enumerate(zip(inputs, windows, strict=False)):
            if stride < 1:
                yield self.problem(f"Strides[{i}]", f"Strides[{i}] is {stride}", "each stride is at least 1")
            elif (last := offset + (size - 1) * stride) >= whole:
                message = (
                    f"Offsets[{i}] + (Sizes[{i}] − 1)·Strides[{i}] is {last}, but InputTensor.Sizes[{i}] is {whole}"
                )
                yield self.problem(f"Sizes[{i}]", message, "the last element taken lies inside the input")

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """One move; Strides multiply the source's."""
        source, destination = layouts or self.layouts()
        return slice_moves(source, destination, self.offsets, self.strides)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``Output[c] = Input[Offsets + Strides · c]``."""
        for at in itertools.product(*map(range, self.sizes)):
            yield 1, at, 0, tuple(o + s * c for o, s, c in zip(self.offsets, self.strides, at, strict=True))
