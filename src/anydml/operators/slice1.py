"""DML_OPERATOR_SLICE1: a strided window, forwards or backwards (DML_SLICE1_OPERATOR_DESC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves import Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.slice import slice_moves
from anydml.operators.types import ALL_TYPES, TYPES_8_TO_32, table
from anydml.tensor import Layout, TensorDesc

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def copy_start(offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """CopyStart of the document: the window's beginning, or its end in dimensions that are walked backwards."""
    return tuple(
        offset + (size - 1 if stride < 0 else 0) for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    )


def max_copied_elements(window_size: int, stride: int) -> int:
    """``1 + (InputWindowSize − 1) / |InputWindowStride|`` (the document leaves out the bars)."""
    return 1 + (window_size - 1) // abs(stride)


def window_problems(
    desc: OperatorDesc,
    whole: tuple[str, TensorDesc],
    taken: tuple[str, TensorDesc],
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
) -> Iterator[Problem]:
    """A window that is not empty and lies inside `whole`; no more in `taken` than it can give."""
    count = len(whole[1].sizes)
    yield from desc.one_a_dimension("InputWindowOffsets", offsets, count, whole[0])
    yield from desc.one_a_dimension("InputWindowSizes", sizes, count, whole[0])
    yield from desc.one_a_dimension("InputWindowStrides", strides, count, whole[0], is_signed=True)
    window = zip(offsets, sizes, strides, strict=False)
    both = zip(whole[1].sizes, taken[1].sizes, strict=False)
    for i, ((available, n), (offset, size, stride)) in enumerate(zip(both, window, strict=False)):
        if size < 1:
            yield desc.problem(f"InputWindowSizes[{i}]", f"InputWindowSizes[{i}] is {size}", "the window is not empty")
        if offset + size > available:
            message = (
                f"InputWindowOffsets[{i}] + InputWindowSizes[{i}] is {offset + size}, "
                f"but {whole[0]}.Sizes[{i}] is {available}"
            )
            rule = "the window lies inside the input" if whole[0] == "InputTensor" else "the window lies inside"
            yield desc.problem(f"InputWindowSizes[{i}]", message, rule)
        if stride == 0 or not INT_MIN <= stride <= INT_MAX:
            message = f"InputWindowStrides[{i}] is {stride}"
            yield desc.problem(f"InputWindowStrides[{i}]", message, "a stride is an INT and never 0")
        elif size >= 1 and n > (most := max_copied_elements(size, stride)):
            message = f"{taken[0]}.Sizes[{i}] is {n}, but a window of {size} with stride {stride} gives at most {most}"
            name = taken[0].removesuffix("Tensor")
            rule = f"1 <= {name}Sizes[i] <= 1 + (InputWindowSize[i] − 1) / |InputWindowStrides[i]|"
            yield desc.problem(f"{taken[0]}.Sizes[{i}]", message, rule)


@dataclass(frozen=True, slots=True)
class Slice1OperatorDesc(OperatorDesc):
    """DML_SLICE1_OPERATOR_DESC: ``Output[c] = Input[CopyStart + InputWindowStrides · c]``.

    Args:
        input_tensor: the tensor to read.
        output_tensor: the tensor to write; it may take fewer elements than the window holds, at least 1.
        input_window_offsets: where the window begins, one a dimension.
        input_window_sizes: how far it extends, at least 1, one a dimension.
        input_window_strides: INT steps, never 0, one a dimension; negative ones start at the window's end.
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    input_window_offsets: tuple[int, ...]
    input_window_sizes: tuple[int, ...]
    input_window_strides: tuple[int, ...]

    OPERATOR: ClassVar[str] = "DML_SLICE1"
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor",)
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)
    SUPPORT: ClassVar[SupportTable] = table(
        ("InputTensor", "OutputTensor"),
        (FeatureLevel.LEVEL_4_1, 1, 8, ALL_TYPES),
        (FeatureLevel.LEVEL_3_0, 1, 8, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_2_1, 4, 5, TYPES_8_TO_32),
    )

    def __init__(
        self,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        input_window_offsets: Sequence[int],
        input_window_sizes: Sequence[int],
        input_window_strides: Sequence[int],
    ) -> None:
        self._put(
            input_tensor=input_tensor,
            output_tensor=output_tensor,
            input_window_offsets=input_window_offsets,
            input_window_sizes=input_window_sizes,
            input_window_strides=input_window_strides,
        )

    def constraints(self) -> Iterator[Problem]:
        """Same DataType and DimensionCount; a window that is not empty and lies inside; no more than it can give."""
        yield from self._same_kind("input_tensor", "output_tensor")
        window = self.input_window_offsets, self.input_window_sizes, self.input_window_strides
        whole, taken = ("InputTensor", self.input_tensor), ("OutputTensor", self.output_tensor)
        yield from window_problems(self, whole, taken, *window)

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """One move; signed strides in the source, starting at CopyStart."""
        source, destination = layouts or self.layouts()
        start = copy_start(self.input_window_offsets, self.input_window_sizes, self.input_window_strides)
        return slice_moves(source, destination, start, self.input_window_strides)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """The document's pseudo-code, one output coordinate after the other."""
        start = list(self.input_window_offsets)
        for i, stride in enumerate(self.input_window_strides):
            if stride < 0:
                start[i] += self.input_window_sizes[i] - 1
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            yield 1, at, 0, tuple(o + s * c for o, s, c in zip(start, self.input_window_strides, at, strict=True))
