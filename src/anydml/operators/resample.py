"""DML_OPERATOR_RESAMPLE, RESAMPLE1, RESAMPLE2 and RESAMPLE3: nearest-neighbour resampling of a grid."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np

from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, Source, TensorDesc
from anydml.operators.enums import AxisDirection, InterpolationMode
from anydml.operators.grids import Grid, GridAxis, grid_axis
from anydml.operators.problem import camel
from anydml.operators.rule import Integers, Maker, View, rule
from anydml.operators.types import FLOATS_16_AND_32, Levels
from anydml.records import ListOf, Named, record
from anydml.tensor import DataType

WITH_BYTES = (*FLOATS_16_AND_32, DataType.INT8, DataType.UINT8)
NEWER_ROWS = (("6_2", 1, 4, WITH_BYTES), ("5_1", 1, 4, FLOATS_16_AND_32))


@rule
def resample_rule(maker: Maker, x: View, axes: list[GridAxis], sizes: Integers) -> None:
    """Resample each axis by a constant step, by a step and repetitions, or by positions."""
    to: View = maker.result(sizes)
    d: int = 0
    for k in range(len(axes)):
        axis: GridAxis = axes[k]
        if axis.indices is not None:
            x = maker.pick(x, maker.constant(axis.indices), d, "clamp")
        else:
            x = maker.cut(x, d, axis.start, axis.distinct, axis.step)
        if axis.repeats > 1:
            to = maker.split(to, d, maker.ints(axis.distinct, axis.repeats))
            x = maker.expand(x, d + 1, axis.repeats)
            d += 1
        d += 1
    maker.copy(to, x)


class _Resample(OperatorDesc):
    """Base class of the four descs, the later of which have fields for pixel offsets and the direction of rounding."""

    __slots__ = ()

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]

    def grids(self) -> list[Grid]:
        """Return the coordinate map of each dimension; by default, of pixels' centres, rounded half up."""
        of_input = getattr(self, "input_pixel_offsets", (0.5,) * len(self.scales))
        of_output = getattr(self, "output_pixel_offsets", (-0.5,) * len(self.scales))
        direction = getattr(self, "rounding_direction", None)
        return [Grid(*axis, direction) for axis in zip(self.scales, of_input, of_output, strict=True)]

    def constraints(self) -> Iterator[Problem]:
        """Finite numbers, one per dimension; scales above 0; NEAREST_NEIGHBOR."""
        offsets = ("input_pixel_offsets", "output_pixel_offsets")
        for name in ("scales", *filter(partial(hasattr, self), offsets)):
            field = camel(name)
            yield from self.one_per_dimension(name, are_signed=True)
            for i, value in enumerate(getattr(self, name)):
                is_scale = field == "Scales"
                if not math.isfinite(np.float32(value)) or (is_scale and not np.float32(value) > 0):
                    rule = "it must be a number above 0" if is_scale else "it must be a finite number"
                    yield self.problem(f"{field}[{i}]", f"{field}[{i}] is {value}", rule)
        yield from self.nearest_only(self.interpolation_mode)

    def _axes(self) -> list[GridAxis]:
        axes = zip(self.grids(), self.output_tensor.sizes, self.input_tensor.sizes, strict=True)
        return [grid_axis(grid, count, size) for grid, count, size in axes]

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Resample by steps where positions have a constant step or repeat, elsewhere by lookups of constants."""
        resample_rule(maker, inputs[0], self._axes(), Integers(self.output_tensor.sizes))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``Output[c] = Input[x]``, each x rounded and clamped to the axis."""
        grids, sizes = self.grids(), self.input_tensor.sizes
        return 0, tuple(grid.position(c, size) for grid, c, size in zip(grids, at, sizes, strict=True))


@record
class ResampleOperatorDesc(_Resample):
    """DML_RESAMPLE_OPERATOR_DESC: ``Output[c] = Input[floor((c + 0.5) / Scales)]``, clamped to the input.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes: beyond the scaled input, the last element is repeated.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.
        scales: above 0, one per dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales = [1, 1, 2, 2]
        >>> dml.ResampleOperatorDesc(small, large, "NEAREST_NEIGHBOR", scales).problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: Named[InterpolationMode]
    scales: ListOf[float]

    LEVELS = (*NEWER_ROWS, ("2_0", 4, 4, FLOATS_16_AND_32))


@record
class Resample1OperatorDesc(ResampleOperatorDesc):
    """DML_RESAMPLE1_OPERATOR_DESC: RESAMPLE with pixel offsets.

    ``x = (c − OutputPixelOffsets) / Scales − InputPixelOffsets`` is rounded half up and clamped to the input.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.
        scales: above 0, one per dimension.
        input_pixel_offsets: finite, one per dimension; 0.5 for pixel centres.
        output_pixel_offsets: finite, one per dimension; −0.5 for pixel centres.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> dml.Resample1OperatorDesc(small, large, "NEAREST_NEIGHBOR", scales, *offsets).problems()
        no problems
    """

    input_pixel_offsets: ListOf[float]
    output_pixel_offsets: ListOf[float]

    LEVELS = (*NEWER_ROWS, ("2_1", 4, 4, FLOATS_16_AND_32))


@record
class Resample2OperatorDesc(_Resample):
    """DML_RESAMPLE2_OPERATOR_DESC: RESAMPLE1 with a direction of rounding.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.
        rounding_direction: INCREASING rounds x up, DECREASING rounds it down.
        scales: above 0, one per dimension.
        input_pixel_offsets: finite, one per dimension.
        output_pixel_offsets: finite, one per dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> dml.Resample2OperatorDesc(small, large, "NEAREST_NEIGHBOR", "INCREASING", scales, *offsets).problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: Named[InterpolationMode]
    rounding_direction: Named[AxisDirection]
    scales: ListOf[float]
    input_pixel_offsets: ListOf[float]
    output_pixel_offsets: ListOf[float]

    LEVELS: ClassVar[Levels] = NEWER_ROWS


@record
class Resample3OperatorDesc(Resample2OperatorDesc):
    """DML_RESAMPLE3_OPERATOR_DESC: RESAMPLE2 with a field that only LINEAR reads.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.
        rounding_direction: INCREASING rounds x up, DECREASING rounds it down.
        scales: above 0, one per dimension.
        input_pixel_offsets: finite, one per dimension.
        output_pixel_offsets: finite, one per dimension.
        antialiased: no effect on the nearest neighbour.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> dml.Resample3OperatorDesc(small, large, "NEAREST_NEIGHBOR", "INCREASING", scales, *offsets).problems()
        no problems
    """

    antialiased: bool = False

    LEVELS = (("6_4", 1, 4, WITH_BYTES),)
