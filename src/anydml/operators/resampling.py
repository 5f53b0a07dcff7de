"""The base class of DML_OPERATOR_RESAMPLE and its successors: nearest-neighbour resampling of a grid."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, Source, TensorDesc
from anydml.operators.enums import InterpolationMode
from anydml.operators.grids import Grid, GridAxis, grid_axis
from anydml.operators.problem import camel
from anydml.operators.rule import Integers, Maker, View, rule
from anydml.text import count_noun


@rule
def resample_rule(make: Maker, x: View, axes: list[GridAxis], sizes: Integers) -> None:
    """Resample each axis by a constant step, by a step and repetitions, or by positions."""
    to: View = make.result(sizes)
    d: int = 0
    for k in range(len(axes)):
        axis: GridAxis = axes[k]
        if axis.indices is not None:
            x = make.pick(x, make.constant(axis.indices), d, "clamp")
        else:
            x = make.cut(x, d, axis.start, axis.distinct, axis.step)
        if axis.repeats > 1:
            to = make.split(to, d, make.ints(axis.distinct, axis.repeats))
            x = make.expand(x, d + 1, axis.repeats)
            d += 1
        d += 1
    make.copy(to, x)


class ResampleBase(OperatorDesc):
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
        rank = len(self.input_tensor.sizes)
        offsets = ("input_pixel_offsets", "output_pixel_offsets")
        for name in ("scales", *filter(partial(hasattr, self), offsets)):
            field, values = camel(name), getattr(self, name)
            if len(values) != rank:
                message = (
                    f"{field} has {count_noun(len(values), 'entry')}, "
                    f"but InputTensor has {count_noun(rank, 'dimension')}"
                )
                yield self.problem(field, message, "one entry per dimension (DimensionCount)")
            for i, value in enumerate(values):
                is_scale = field == "Scales"
                if not math.isfinite(np.float32(value)) or (is_scale and not np.float32(value) > 0):
                    rule = "it must be a number above 0" if is_scale else "it must be a finite number"
                    yield self.problem(f"{field}[{i}]", f"{field}[{i}] is {value}", rule)
        yield from self.nearest_only(self.interpolation_mode)

    def _axes(self) -> list[GridAxis]:
        axes = zip(self.grids(), self.output_tensor.sizes, self.input_tensor.sizes, strict=True)
        return [grid_axis(grid, count, size) for grid, count, size in axes]

    def apply(self, make: Maker, *inputs: View) -> None:
        """Resample by steps where positions have a constant step or repeat, elsewhere by lookups of constants."""
        resample_rule(make, inputs[0], self._axes(), Integers(self.output_tensor.sizes))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``Output[c] = Input[x]``, each x rounded and clamped to the axis."""
        grids, sizes = self.grids(), self.input_tensor.sizes
        return 0, tuple(grid.position(c, size) for grid, c, size in zip(grids, at, sizes, strict=True))
