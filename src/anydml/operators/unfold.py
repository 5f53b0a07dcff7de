"""DML_OPERATOR_UNFOLD: sliding windows as columns (DML_UNFOLD_OPERATOR_DESC)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from anydml.operators.base import Coordinate, ListOf, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.problem import camel
from anydml.operators.rule import DescError, Integers, Maker, View, call_check, holds, int64, rule
from anydml.operators.types import ALL_TYPES
from anydml.symbols import are_at_least, integers_or_symbols
from anydml.text import count_noun


@rule
def unfold_rule(
    maker: Maker,
    x: View,
    windows: Integers,
    blocks: Integers,
    strides: Integers,
    dilations: Integers,
    before: Integers,
    after: Integers,
) -> None:
    """Write element k of window b to row c ++ k, column b; 0 where it lies outside x."""
    size: int64 = maker.volume(windows)
    to: View = maker.result(maker.ints(x.sizes[0], x.sizes[1] * size, maker.volume(blocks)))
    to = maker.split(maker.split(maker.split(to, 2, blocks), 1, maker.ints(x.sizes[1], size)), 2, windows)
    # The axis inside each window, then the axis of the windows.
    order: Integers = Integers([k if k < 2 else 1 + k // 2 + k % 2 * windows.count for k in range(to.rank)])
    _unfold(maker, maker.permute(to, order), x, windows.count - 1, strides, dilations, before, after)


@rule
def _unfold(
    maker: Maker, to: View, x: View, d: int, strides: Integers, dilations: Integers, before: Integers, after: Integers
) -> None:
    """Write the windows along spatial axes d, d − 1, … 0, whose elements and windows are two axes of the place."""
    if d < 0:
        maker.copy(to, x)
        return
    axis: int = 2 + 2 * d
    count: int64 = to.sizes[axis + 1]
    stride: int64 = strides.at[d]
    if before.at[d] == 0 and after.at[d] == 0:
        x = maker.slide(x, 2 + d, to.sizes[axis], dilations.at[d], count, stride)
        _unfold(maker, to, x, d - 1, strides, dilations, before, after)
        return
    for k in range(to.sizes[axis]):
        # The element of window b is at b · stride + shift, which is inside the image for first ≤ b < end.
        row: View = maker.at(to, axis, k)
        shift: int64 = k * dilations.at[d] - before.at[d]
        first: int64 = -(shift // stride) if shift < 0 else 0
        end: int64 = (x.sizes[2 + d] - 1 - shift) // stride + 1
        first = count if first > count else first
        end = first if end < first else count if end > count else end
        maker.fill(maker.cut(row, axis, 0, first, 1), None)
        maker.fill(maker.cut(row, axis, end, count - end, 1), None)
        inside: View = maker.cut(x, 2 + d, first * stride + shift, end - first, stride)
        _unfold(maker, maker.cut(row, axis, first, end - first, 1), inside, d - 1, strides, dilations, before, after)


@record
class UnfoldOperatorDesc(OperatorDesc):
    """DML_UNFOLD_OPERATOR_DESC: ``Output[n, c ++ k, b] = Input[n, c, b · Strides − StartPadding + k · Dilations]``.

    Elements outside the image are 0. The page requires equal DimensionCounts, which contradicts all of its examples:
    here the output has three dimensions, as in the examples.

    Args:
        input_tensor: N, C and one to six more dimensions.
        output_tensor: N, C · the window's elements, the window's positions.
        window_sizes: the window's sizes, one per dimension after N and C, as all following lists.
        strides: steps between windows, at least 1.
        dilations: steps between a window's elements, at least 1.
        start_padding: zeros before the image.
        end_padding: zeros after the image.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.UnfoldOperatorDesc(T("INT8", [1, 1, 4]), T("INT8", [1, 2, 3]), [2], [1], [1], [0], [0]).problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    window_sizes: ListOf[int]
    strides: ListOf[int]
    dilations: ListOf[int]
    start_padding: ListOf[int]
    end_padding: ListOf[int]

    # The page lists no data types: all are supported.
    LEVELS = (("6_4", 3, 8, ALL_TYPES),)

    def kind_problems(self) -> Iterator[Problem]:
        """Check DataTypes only."""
        return (problem for problem in OperatorDesc.kind_problems(self) if problem.field.endswith(".DataType"))

    def constraints(self) -> Iterator[Problem]:
        """One number per spatial dimension; a window that fits; the output's sizes as documented."""
        sizes = self.input_tensor.sizes
        spatial = sizes[2:]
        broken: list[Problem] = []
        for field in ("window_sizes", "strides", "dilations", "start_padding", "end_padding"):
            name, values = camel(field), getattr(self, field)
            if len(values) != len(spatial):
                have = count_noun(len(spatial), "spatial dimension")
                message = f"{name} has {count_noun(len(values), 'entry')}, but InputTensor has {have}"
                broken.append(self.problem(name, message, "one entry per dimension after N and C (DimensionCount)"))
                continue
            broken += self.are_uints(field)
            for i, value in enumerate(values):
                if value == 0 and not field.endswith("padding"):
                    broken.append(self.problem(f"{name}[{i}]", f"{name}[{i}] is 0", "it must be at least 1"))
        yield from broken
        if broken or len(sizes) < 3:
            return
        for i, reach in enumerate(self._reach()):
            if reach < 0:
                message = f"WindowSizes[{i}] is {self.window_sizes[i]}, which does not fit the padded image"
                yield self.problem(f"WindowSizes[{i}]", message, "the dilated window must fit the padded image")
                return
        expected = (sizes[0], sizes[1] * math.prod(self.window_sizes), math.prod(self._blocks()))
        rule = "sizes must be N, C · the window's elements, the window's positions"
        yield from self.sizes_are("output_tensor", expected, rule)

    def _reach(self) -> list[int]:
        """Return the range of window positions in each dimension."""
        padding = zip(self.input_tensor.sizes[2:], self.start_padding, self.end_padding, strict=True)
        windows = zip(self.dilations, self.window_sizes, strict=True)
        return [s + a + b - d * (w - 1) - 1 for (s, a, b), (d, w) in zip(padding, windows, strict=True)]

    def _blocks(self) -> list[int]:
        """Return the number of windows in each dimension."""
        return [reach // stride + 1 for reach, stride in zip(self._reach(), self.strides, strict=True)]

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write all windows that lie in the image, and zeros elsewhere."""
        fields = self.window_sizes, self._blocks(), self.strides, self.dilations, self.start_padding, self.end_padding
        unfold_rule(maker, inputs[0], *map(Integers, fields))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``Output[n, ravel(c ++ k), ravel(b)] = Input[n, c, b · Strides − StartPadding + k · Dilations]``, or 0."""
        _, channels, *spatial = self.input_tensor.sizes
        c, *k = map(int, np.unravel_index(at[1], (channels, *self.window_sizes)))
        b = map(int, np.unravel_index(at[2], self._blocks()))
        axes = zip(b, self.strides, self.start_padding, k, self.dilations, strict=True)
        inside = [block * stride - padding + tap * dilation for block, stride, padding, tap, dilation in axes]
        if all(0 <= i < size for i, size in zip(inside, spatial, strict=True)):
            return 0, (at[0], c, *inside)
        return bytes(self.output_tensor.data_type.itemsize), ()


@call_check
def check_unfold(
    name: str, shape: Sizes, windows: Any, strides: Any, dilations: Any, pads: Any
) -> tuple[Sizes, Sizes, Sizes, Sizes, Sizes, Sizes]:
    """Return window sizes, numbers of windows, strides, dilations, and pads before and after each dimension."""
    rank: int = len(shape) - 2
    if rank < 1:
        message = f"{name}: x has {count_noun(len(shape), 'dimension')}"
        raise DescError(message, name, "x", "x must have N, C and at least one spatial dimension")
    sizes: Sizes = _spatial(name, "window_sizes", windows, rank, 1, 1)
    steps: Sizes = _spatial(name, "strides", strides, rank, 1, 1)
    dilation_steps: Sizes = _spatial(name, "dilations", dilations, rank, 1, 1)
    padding: Sizes = _spatial(name, "pads", pads, 2 * rank, 0, 0)
    # How far a window can be moved.
    reach: Sizes = tuple(
        [shape[2 + d] + padding[d] + padding[rank + d] - dilation_steps[d] * (sizes[d] - 1) - 1 for d in range(rank)]
    )
    for i in range(rank):
        if not holds(reach[i] >= 0):
            extent: int = dilation_steps[i] * (sizes[i] - 1) + 1
            padded: int = extent + reach[i]
            message = (
                f"{name}: window_sizes[{i}] is {sizes[i]}, or {extent} with dilations, but x has {padded} with pads"
            )
            raise DescError(message, name, f"window_sizes[{i}]", "the window must fit into x with its pads")
    blocks: Sizes = tuple([reach[d] // steps[d] + 1 for d in range(rank)])
    before: Sizes = tuple([padding[d] for d in range(rank)])
    after: Sizes = tuple([padding[rank + d] for d in range(rank)])
    return sizes, blocks, steps, dilation_steps, before, after


def _spatial(name: str, field: str, values: Any, count: int, min_value: int, usual: int) -> Sizes:
    entries: Sizes = (usual,) * count if values is None else integers_or_symbols(name, field, values)
    if len(entries) != count or not are_at_least(min_value, entries):
        message = f"{name}: {field} is {list(entries)}"
        raise DescError(message, name, field, f"it must have {count_noun(count, 'entry')} of at least {min_value}")
    return entries


@function(check_unfold, rule=unfold_rule)
def unfold(
    x: Array,
    window_sizes: Ints,
    strides: Ints | None = None,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Copy windows of an image to columns (DML_OPERATOR_UNFOLD, without its limits), like `torch.nn.functional.unfold`.

    Args:
        x: array of any dtype: N, C, and one or more spatial dimensions.
        window_sizes: the window's sizes, one per spatial dimension.
        strides: steps between windows, one per spatial dimension; 1 by default.
        dilations: steps between a window's elements, one per spatial dimension; 1 by default.
        pads: zeros before x, one number per spatial dimension, then after x; none by default.
        out: output array of the result's shape and x's dtype.

    Returns:
        An array of shape N, C · elements of a window, windows: new and contiguous, or `out`.

    Raises:
        DescError: a list has the wrong length, or the window does not fit.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.unfold(np.arange(4.0).reshape(1, 1, 4), [2])
        array([[[0., 1., 2.],
                [1., 2., 3.]]])
    """
