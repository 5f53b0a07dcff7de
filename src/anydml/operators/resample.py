"""DML_OPERATOR_RESAMPLE, RESAMPLE1, RESAMPLE2 and RESAMPLE3: the nearest neighbours of a grid, which only move."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves import Access, Lookup, Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.enums import AxisDirection, InterpolationMode
from anydml.operators.grids import Axis, Grid, axis_of
from anydml.operators.types import FLOATS_16_AND_32, table
from anydml.tensor import DataType, Layout, TensorDesc
from anydml.text import counted

BOTH = ("InputTensor", "OutputTensor")
WITH_BYTES = (*FLOATS_16_AND_32, DataType.INT8, DataType.UINT8)


class ResampleBase(OperatorDesc):
    """What the four have in common."""

    __slots__ = ()

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]

    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor",)
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)

    def _offsets(self) -> tuple[tuple[float, ...], tuple[float, ...], AxisDirection | None]:
        """Of the input's pixels, of the output's, and the direction of rounding."""
        return (0.5,) * len(self.scales), (-0.5,) * len(self.scales), None

    def grids(self) -> list[Grid]:
        """One a dimension."""
        of_input, of_output, direction = self._offsets()
        return [Grid(*each, direction) for each in zip(self.scales, of_input, of_output, strict=True)]

    def constraints(self) -> Iterator[Problem]:
        """Same DataType and DimensionCount; finite numbers, one a dimension; scales above 0; nothing to compute."""
        yield from self._same_kind("input_tensor", "output_tensor")
        rank = len(self.input_tensor.sizes)
        of_input, of_output, _ = self._offsets()
        fields = {"Scales": self.scales}
        if type(self) is not ResampleOperatorDesc:
            fields |= {"InputPixelOffsets": of_input, "OutputPixelOffsets": of_output}
        for field, values in fields.items():
            if len(values) != rank:
                message = (
                    f"{field} has {counted(len(values), 'entry')}, but InputTensor has {counted(rank, 'dimension')}"
                )
                yield self.problem(field, message, "one entry a dimension (DimensionCount)")
            for i, value in enumerate(values):
                is_scale = field == "Scales"
                if not math.isfinite(np.float32(value)) or (is_scale and not np.float32(value) > 0):
                    rule = "it is a number above 0" if is_scale else "it is a finite number"
                    yield self.problem(f"{field}[{i}]", f"{field}[{i}] is {value}", rule)
        if self.interpolation_mode != InterpolationMode.NEAREST_NEIGHBOR:
            message = f"InterpolationMode is {self.interpolation_mode}, but anydml moves data and computes nothing"
            yield self.problem("InterpolationMode", message, "InterpolationMode is NEAREST_NEIGHBOR")

    def _axes(self) -> list[Axis]:
        each = zip(self.grids(), self.output_tensor.sizes, self.input_tensor.sizes, strict=True)
        return [axis_of(grid.positions(count, size)) for grid, count, size in each]

    @property
    def constants(self) -> tuple[np.ndarray[Any, Any], ...]:
        """The input's coordinates along each axis in which they follow no one step."""
        return tuple(axis.looked_up.astype(np.uint32) for axis in self._axes() if axis.looked_up is not None)

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """One move: strides where coordinates follow one step, stand still or repeat, constant lookups elsewhere."""
        source, output = layouts or self.layouts()
        axes = self._axes()
        sizes = tuple(size for axis in axes for size in axis.sizes)
        to: list[int] = []
        steps: list[int] = []
        lookups: list[Lookup] = []
        offset = 0
        for d, axis in enumerate(axes):
            own = source.strides[d]
            offset += axis.start * own
            if axis.looked_up is not None:
                along = tuple(4 if k == len(to) else 0 for k in range(len(sizes)))
                lookups.append(Lookup(2 + len(lookups), "uint32", 0, along, source.sizes[d], own))
            to += [output.strides[d] * math.prod(axis.sizes[k + 1 :]) for k in range(len(axis.sizes))]
            steps += [step * own for step in axis.steps]
        read = Access(0, offset, tuple(steps), tuple(lookups))
        return (Move(sizes, Access(1, 0, tuple(to)), read, source.element_size),)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``Output[c] = Input[x]``, each x rounded and held inside the axis."""
        grids, sizes = self.grids(), self.input_tensor.sizes
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            yield 1, at, 0, tuple(grid.position(c, size) for grid, c, size in zip(grids, at, sizes, strict=True))


@dataclass(frozen=True, slots=True)
class ResampleOperatorDesc(ResampleBase):
    """DML_RESAMPLE_OPERATOR_DESC: ``Output[c] = Input[floor((c + 0.5) / Scales)]``, held inside the input.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes: where they are more than the scales say, the last element is repeated.
        interpolation_mode: NEAREST_NEIGHBOR; anydml computes nothing.
        scales: above 0, one a dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales = [1, 1, 2, 2]
        >>> desc = dml.ResampleOperatorDesc(small, large, "NEAREST_NEIGHBOR", scales)
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]

    OPERATOR: ClassVar[str] = "DML_RESAMPLE"
    SUPPORT: ClassVar[SupportTable] = table(
        BOTH,
        (FeatureLevel.LEVEL_6_2, 1, 4, WITH_BYTES),
        (FeatureLevel.LEVEL_5_1, 1, 4, FLOATS_16_AND_32),
        (FeatureLevel.LEVEL_2_0, 4, 4, FLOATS_16_AND_32),
    )

    def __init__(
        self,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | str,
        scales: Sequence[float],
    ) -> None:
        self._put(
            input_tensor=input_tensor,
            output_tensor=output_tensor,
            interpolation_mode=interpolation_mode,
            scales=scales,
        )


@dataclass(frozen=True, slots=True)
class Resample1OperatorDesc(ResampleBase):
    """DML_RESAMPLE1_OPERATOR_DESC: RESAMPLE with pixel offsets.

    ``x = (c − OutputPixelOffsets) / Scales − InputPixelOffsets`` is rounded half up and held inside the input.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: NEAREST_NEIGHBOR; anydml computes nothing.
        scales: above 0, one a dimension.
        input_pixel_offsets: finite, one a dimension; 0.5 for the pixels' middle.
        output_pixel_offsets: likewise; −0.5.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> desc = dml.Resample1OperatorDesc(small, large, "NEAREST_NEIGHBOR", scales, *offsets)
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]

    OPERATOR: ClassVar[str] = "DML_RESAMPLE1"
    SUPPORT: ClassVar[SupportTable] = table(
        BOTH,
        (FeatureLevel.LEVEL_6_2, 1, 4, WITH_BYTES),
        (FeatureLevel.LEVEL_5_1, 1, 4, FLOATS_16_AND_32),
        (FeatureLevel.LEVEL_2_1, 4, 4, FLOATS_16_AND_32),
    )

    def __init__(
        self,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | str,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
    ) -> None:
        self._put(
            input_tensor=input_tensor,
            output_tensor=output_tensor,
            interpolation_mode=interpolation_mode,
            scales=scales,
            input_pixel_offsets=input_pixel_offsets,
            output_pixel_offsets=output_pixel_offsets,
        )

    def _offsets(self) -> tuple[tuple[float, ...], tuple[float, ...], AxisDirection | None]:
        return self.input_pixel_offsets, self.output_pixel_offsets, None


@dataclass(frozen=True, slots=True)
class Resample2OperatorDesc(ResampleBase):
    """DML_RESAMPLE2_OPERATOR_DESC: RESAMPLE1 with a direction of rounding.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: NEAREST_NEIGHBOR; anydml computes nothing.
        rounding_direction: INCREASING takes the next whole number from x up, DECREASING from x down.
        scales: above 0, one a dimension.
        input_pixel_offsets: finite, one a dimension.
        output_pixel_offsets: likewise.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> desc = dml.Resample2OperatorDesc(small, large, "NEAREST_NEIGHBOR", "INCREASING", scales, *offsets)
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    rounding_direction: AxisDirection
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]

    OPERATOR: ClassVar[str] = "DML_RESAMPLE2"
    SUPPORT: ClassVar[SupportTable] = table(
        BOTH, (FeatureLevel.LEVEL_6_2, 1, 4, WITH_BYTES), (FeatureLevel.LEVEL_5_1, 1, 4, FLOATS_16_AND_32)
    )

    def __init__(
        self,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | str,
        rounding_direction: AxisDirection | str,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
    ) -> None:
        self._put(
            input_tensor=input_tensor,
            output_tensor=output_tensor,
            interpolation_mode=interpolation_mode,
            rounding_direction=rounding_direction,
            scales=scales,
            input_pixel_offsets=input_pixel_offsets,
            output_pixel_offsets=output_pixel_offsets,
        )

    def _offsets(self) -> tuple[tuple[float, ...], tuple[float, ...], AxisDirection | None]:
        return self.input_pixel_offsets, self.output_pixel_offsets, self.rounding_direction


@dataclass(frozen=True, slots=True)
class Resample3OperatorDesc(ResampleBase):
    """DML_RESAMPLE3_OPERATOR_DESC: RESAMPLE2 with a field that only LINEAR reads.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: NEAREST_NEIGHBOR; anydml computes nothing.
        rounding_direction: INCREASING takes the next whole number from x up, DECREASING from x down.
        scales: above 0, one a dimension.
        input_pixel_offsets: finite, one a dimension.
        output_pixel_offsets: likewise.
        antialiased: means nothing to the nearest neighbour.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> desc = dml.Resample3OperatorDesc(small, large, "NEAREST_NEIGHBOR", "INCREASING", scales, *offsets)
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    rounding_direction: AxisDirection
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    antialiased: bool

    OPERATOR: ClassVar[str] = "DML_RESAMPLE3"
    SUPPORT: ClassVar[SupportTable] = table(BOTH, (FeatureLevel.LEVEL_6_4, 1, 4, WITH_BYTES))

    def __init__(
        self,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | str,
        rounding_direction: AxisDirection | str,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
        antialiased: bool = False,
    ) -> None:
        self._put(
            input_tensor=input_tensor,
            output_tensor=output_tensor,
            interpolation_mode=interpolation_mode,
            rounding_direction=rounding_direction,
            scales=scales,
            input_pixel_offsets=input_pixel_offsets,
            output_pixel_offsets=output_pixel_offsets,
            antialiased=antialiased,
        )

    def _offsets(self) -> tuple[tuple[float, ...], tuple[float, ...], AxisDirection | None]:
        return self.input_pixel_offsets, self.output_pixel_offsets, self.rounding_direction
