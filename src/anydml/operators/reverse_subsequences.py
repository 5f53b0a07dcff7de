"""DML_OPERATOR_REVERSE_SUBSEQUENCES: the first elements of each row, turned round (…_REVERSE_SUBSEQUENCES_…_DESC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves import Access, Lookup, Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.regions import copied
from anydml.operators.types import ALL_TYPES, ONLY_UINT32, TYPES_8_TO_32, indexed_table
from anydml.tensor import DataType, Layout, TensorDesc

UNSIGNED = (DataType.UINT64, DataType.UINT32)


@dataclass(frozen=True, slots=True)
class ReverseSubsequencesOperatorDesc(OperatorDesc):
    """DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC: along Axis, the first L elements backwards, the others as they are.

    Args:
        input_tensor: the tensor to read.
        sequence_lengths_tensor: L, UINT32 or UINT64, held at the axis's size; its sizes are the input's, but 1 along
            `axis`.
        output_tensor: its sizes are the input's.
        axis: 0 to DimensionCount − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.ReverseSubsequencesOperatorDesc(T("INT8", [2, 4]), T("UINT32", [2, 1]), T("INT8", [2, 4]), axis=1)
        ReverseSubsequencesOperatorDesc(INT8 [2, 4], UINT32 [2, 1] → INT8 [2, 4], axis 1)
    """

    input_tensor: TensorDesc
    sequence_lengths_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    OPERATOR: ClassVar[str] = "DML_REVERSE_SUBSEQUENCES"
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor", "sequence_lengths_tensor")
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)
    SUPPORT: ClassVar[SupportTable] = indexed_table(
        ("InputTensor", "OutputTensor"),
        "SequenceLengthsTensor",
        (FeatureLevel.LEVEL_5_0, 1, 8, ALL_TYPES, UNSIGNED),
        (FeatureLevel.LEVEL_4_0, 1, 8, TYPES_8_TO_32, ONLY_UINT32),
        (FeatureLevel.LEVEL_3_0, 4, 5, TYPES_8_TO_32, ONLY_UINT32),
        (FeatureLevel.LEVEL_2_1, 4, 4, TYPES_8_TO_32, ONLY_UINT32),
    )

    def __init__(
        self, input_tensor: TensorDesc, sequence_lengths_tensor: TensorDesc, output_tensor: TensorDesc, axis: int
    ) -> None:
        self._put(
            input_tensor=input_tensor,
            sequence_lengths_tensor=sequence_lengths_tensor,
            output_tensor=output_tensor,
            axis=axis,
        )

    def constraints(self) -> Iterator[Problem]:
        """Same DataType, DimensionCount and Sizes; Axis in range; one length a row."""
        broken = [*self._same_kind("input_tensor", "output_tensor")]
        lengths = ("SequenceLengthsTensor", self.sequence_lengths_tensor)
        broken += self._same_dimensions("InputTensor", self.input_tensor, *lengths)
        broken += self._axis(self.axis, len(self.input_tensor.sizes))
        broken += self._index_type(*lengths, UNSIGNED)
        yield from broken
        if not any(p.field == "Axis" or p.field.endswith(".Sizes") for p in broken):
            sizes = self.input_tensor.sizes
            expected = (*sizes[: self.axis], 1, *sizes[self.axis + 1 :])
            yield from self.sizes_are(*lengths, expected, "sizes are InputTensor's, but 1 along Axis")
            yield from self.sizes_are("OutputTensor", self.output_tensor, sizes, "sizes are InputTensor's")

    @property
    def constants(self) -> tuple[np.ndarray[Any, Any], ...]:
        """For a size of n: n times n, which is outside, then 0 to n − 1. From place L + n on, backwards: L − 1 … 0."""
        size = self.input_tensor.sizes[self.axis]
        return (np.concatenate([np.full(size, size, np.uint32), np.arange(size, dtype=np.uint32)]),)

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """A copy, and the turned part over it, by a constant that is read where the length says."""
        source, lengths, output = layouts or self.layouts()
        axis, size = self.axis, source.sizes[self.axis]
        dtype = self.sequence_lengths_tensor.data_type.name.lower()
        still = (*lengths.strides[:axis], 0, *lengths.strides[axis + 1 :])
        length = Lookup(1, dtype, 0, still, size + 1, 4)
        back = tuple(-4 if d == axis else 0 for d in range(len(source.sizes)))
        place = Lookup(3, "uint32", (size - 1) * 4, back, size, source.strides[axis], "skip", (length,))
        strides = (*source.strides[:axis], 0, *source.strides[axis + 1 :])
        turned = Access(0, 0, strides, (place,))
        return (
            copied((0, source), (2, output)),
            Move(output.sizes, Access(2, 0, output.strides), turned, source.element_size),
        )

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[c] = input[L − 1 − c]`` along Axis where c < L, else ``input[c]``."""
        axis = self.axis
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            length = min(read(1, (*at[:axis], 0, *at[axis + 1 :])), self.input_tensor.sizes[axis])
            c = at[axis]
            yield 2, at, 0, (*at[:axis], length - 1 - c if c < length else c, *at[axis + 1 :])
