"""The base class of DML_OPERATOR_RESAMPLE and its successors: nearest-neighbour resampling of a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from anydml.moves import Access, Constant, Lookup, Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc
from anydml.operators.enums import AxisDirection, InterpolationMode
from anydml.operators.grids import Grid, GridAxis, grid_axis
from anydml.operators.problem import Problem
from anydml.tensor import Layout, TensorDesc
from anydml.text import counted


class ResampleBase(OperatorDesc):
    """Base class of the four descs.

    Class attributes:
        HAS_OFFSETS: whether the pixel offsets are fields.
    """

    __slots__ = ()

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]

    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor",)
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)
    HAS_OFFSETS: ClassVar[bool] = True

    def _offsets(self) -> tuple[tuple[float, ...], tuple[float, ...], AxisDirection | None]:
        """Offsets of the input's and of the output's pixels, and the direction of rounding."""
        return (0.5,) * len(self.scales), (-0.5,) * len(self.scales), None

    def grids(self) -> list[Grid]:
        """The coordinate map of each dimension."""
        of_input, of_output, direction = self._offsets()
        return [Grid(*each, direction) for each in zip(self.scales, of_input, of_output, strict=True)]

    def constraints(self) -> Iterator[Problem]:
        """Same DataType and DimensionCount; finite numbers, one per dimension; scales above 0; NEAREST_NEIGHBOR."""
        yield from self.same_kind("input_tensor", "output_tensor")
        rank = len(self.input_tensor.sizes)
        of_input, of_output, _ = self._offsets()
        fields = {"Scales": self.scales}
        if self.HAS_OFFSETS:
            fields |= {"InputPixelOffsets": of_input, "OutputPixelOffsets": of_output}
        for field, values in fields.items():
            if len(values) != rank:
                message = (
                    f"{field} has {counted(len(values), 'entry')}, but InputTensor has {counted(rank, 'dimension')}"
                )
                yield self.problem(field, message, "one entry per dimension (DimensionCount)")
            for i, value in enumerate(values):
                is_scale = field == "Scales"
                if not math.isfinite(np.float32(value)) or (is_scale and not np.float32(value) > 0):
                    rule = "it must be a number above 0" if is_scale else "it must be a finite number"
                    yield self.problem(f"{field}[{i}]", f"{field}[{i}] is {value}", rule)
        if self.interpolation_mode != InterpolationMode.NEAREST_NEIGHBOR:
            message = f"InterpolationMode is {self.interpolation_mode}, but anydml moves data and computes nothing"
            yield self.problem("InterpolationMode", message, "InterpolationMode must be NEAREST_NEIGHBOR")

    def _axes(self) -> list[GridAxis]:
        each = zip(self.grids(), self.output_tensor.sizes, self.input_tensor.sizes, strict=True)
        return [grid_axis(grid, count, size) for grid, count, size in each]

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Indices of the axes whose positions have no constant step."""
        return tuple(axis.looked_up for axis in self._axes() if axis.looked_up is not None)

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """One move: strides where positions have a constant step or repeat, lookups of constants elsewhere."""
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
                dtype = axis.looked_up.dtype
                along = tuple(dtype.itemsize if k == len(to) else 0 for k in range(len(sizes)))
                lookups.append(Lookup(2 + len(lookups), dtype.name, 0, along, source.sizes[d], own))
            to += [output.strides[d] * math.prod(axis.sizes[k + 1 :]) for k in range(len(axis.sizes))]
            steps += [step * own for step in axis.steps]
        read = Access(0, offset, tuple(steps), tuple(lookups))
        return (Move(sizes, Access(1, 0, tuple(to)), read, source.element_size),)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``Output[c] = Input[x]``, each x rounded and clamped to the axis."""
        grids, sizes = self.grids(), self.input_tensor.sizes
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            yield 1, at, 0, tuple(grid.position(c, size) for grid, c, size in zip(grids, at, sizes, strict=True))
