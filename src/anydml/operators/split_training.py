"""ORT_OPERATOR_SPLIT_TRAINING: com.microsoft SplitTraining, version 1, as a desc: sizes are data, on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from anydml.moves import Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.parts import part_elements, part_moves, part_problems
from anydml.tensor import Layout, TensorDesc


@dataclass(frozen=True, slots=True)
class SplitTrainingOperatorDesc(OperatorDesc):
    """SplitTraining: SPLIT with the sizes as a second input, read when the operator is bound.

    Args:
        input_tensor: the tensor to split, of any data type.
        split_tensor: INT64, one dimension, one size an output; None is the operator's empty `split`: equal parts.
        output_tensors: at least one; their sizes along `axis` are what the bound `split` must hold.
        axis: −rank to rank − 1.
    """

    input_tensor: TensorDesc
    split_tensor: TensorDesc | None
    output_tensors: tuple[TensorDesc, ...]
    axis: int = 0

    OPERATOR: ClassVar[str] = "SplitTraining"
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor", "split_tensor")
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensors",)
    HOST: ClassVar[tuple[str, ...]] = ("SplitTensor",)

    def __init__(
        self,
        input_tensor: TensorDesc,
        split_tensor: TensorDesc | None,
        output_tensors: Sequence[TensorDesc],
        axis: int = 0,
    ) -> None:
        self._put(input_tensor=input_tensor, split_tensor=split_tensor, output_tensors=output_tensors, axis=axis)

    @property
    def _positive_axis(self) -> int:
        return self.axis + len(self.input_tensor.sizes) if self.axis < 0 else self.axis

    def constraints(self) -> Iterator[Problem]:
        """Same DataType and DimensionCount; axis in range; parts that add up, equal ones where `split` is empty."""
        broken = [*self._same_kind("input_tensor", "output_tensors")]
        broken += self._signed_axis(self.axis, self.input_tensor)
        yield from broken
        if self.split_tensor is not None:
            yield from self._host_vector("SplitTensor", self.split_tensor, len(self.output_tensors))
        if any(p.field == "Axis" or p.field.endswith(".Sizes") for p in broken):
            return
        axis = self._positive_axis
        yield from part_problems(self, self.inputs[0], self.outputs, axis)
        sizes = [tensor.sizes[axis] for tensor in self.output_tensors]
        if self.split_tensor is None and len(set(sizes)) > 1:
            message = f"OutputTensors sizes along Axis {axis} are {sizes}, but there is no SplitTensor"
            yield self.problem("SplitTensor", message, "an empty split makes equal parts")

    def host_problem(self, values: Callable[[int], np.ndarray[Any, Any]]) -> str | None:
        """`split` must hold the outputs' sizes."""
        if self.split_tensor is None:
            return None
        sizes = [tensor.sizes[self._positive_axis] for tensor in self.output_tensors]
        split = values(1).tolist()
        if split == sizes:
            return None
        return f"SplitTensor holds {split}, but OutputTensors have sizes {sizes} along Axis {self._positive_axis}"

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """As SPLIT; the split itself is no part of any move."""
        every = layouts or self.layouts()
        first = len(self.inputs)
        parts = tuple(enumerate(every[first:], first))
        return part_moves((0, every[0]), parts, self._positive_axis, into_whole=False)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[k][..., i, ...] = input[..., split[0] + … + split[k−1] + i, ...]``."""
        first = len(self.inputs)
        for part, at, inside in part_elements(self.output_tensors, self._positive_axis):
            yield first + part, at, 0, inside
