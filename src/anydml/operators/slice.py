"""DML_OPERATOR_SLICE: every n-th element from an offset (DML_SLICE_OPERATOR_DESC), the predecessor of SLICE1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anydml import infer
from anydml.operators.base import Coordinate, ListOf, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.rule import DescError, Integers, Maker, View, call_check, holds, rule
from anydml.operators.types import COPYING, TYPES_16_AND_32


@record
class SliceOperatorDesc(OperatorDesc):
    """DML_SLICE_OPERATOR_DESC: ``Output[c] = Input[Offsets + Strides · c]``.

    Args:
        input_tensor: the tensor to read.
        output_tensor: the tensor to write; its sizes are `sizes`.
        offsets: first coordinates, one per dimension.
        sizes: numbers of elements, one per dimension.
        strides: steps between elements, at least 1, one per dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.SliceOperatorDesc(T("FLOAT32", [6]), T("FLOAT32", [2]), [1], [2], [3])
        SliceOperatorDesc(FLOAT32 [6] → FLOAT32 [2], offsets [1], sizes [2], strides [3])
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    offsets: ListOf[int]
    sizes: ListOf[int]
    strides: ListOf[int]

    LEVELS = (*COPYING, ("1_0", 4, 5, TYPES_16_AND_32))

    def constraints(self) -> Iterator[Problem]:
        """Sizes are the output's; Strides ≥ 1; nothing read outside the input."""
        yield from self.one_per_dimension("offsets", "sizes", "strides")
        if self.sizes != self.output_tensor.sizes:
            message = f"Sizes is {list(self.sizes)}, but OutputTensor.Sizes is {list(self.output_tensor.sizes)}"
            yield self.problem("Sizes", message, "Sizes must equal OutputTensor.Sizes")
        inputs, windows = self.input_tensor.sizes, zip(self.offsets, self.sizes, self.strides, strict=False)
        for i, (limit, (offset, size, stride)) in enumerate(zip(inputs, windows, strict=False)):
            if stride < 1:
                yield self.problem(f"Strides[{i}]", f"Strides[{i}] is {stride}", "each stride must be at least 1")
            elif (last := offset + (size - 1) * stride) >= limit:
                message = (
                    f"Offsets[{i}] + (Sizes[{i}] − 1)·Strides[{i}] is {last}, but InputTensor.Sizes[{i}] is {limit}"
                )
                yield self.problem(f"Sizes[{i}]", message, "the last element taken must lie inside the input")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write the window of the input, with steps Strides."""
        slice_rule(maker, inputs[0], Integers(self.offsets), Integers(self.sizes), Integers(self.strides))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``Output[c] = Input[Offsets + Strides · c]``."""
        return 0, tuple(o + s * c for o, s, c in zip(self.offsets, self.strides, at, strict=True))


@call_check
def check_slice(name: str, shape: Sizes, offsets: Any, sizes: Any, strides: Any) -> tuple[Sizes, Sizes, Sizes]:
    """Return first coordinates, the result's shape, and steps."""
    starts: Sizes = infer.vector(name, "offsets", offsets, len(shape))
    result: Sizes = infer.vector(name, "sizes", sizes, len(shape))
    steps: Sizes = (1,) * len(shape) if strides is None else infer.vector(name, "strides", strides, len(shape))
    for i in range(len(shape)):
        axis_size, start, size, step = shape[i], starts[i], result[i], steps[i]
        if not holds((start >= 0) & (size >= 0) & (step >= 1)):
            values = f"offsets[{i}] is {start}, sizes[{i}] {size}, strides[{i}] {step}"
            rule = "offsets count from 0, sizes must be 0 or more, strides 1 or more"
            raise DescError(f"{name}: {values}: {rule}", name, f"sizes[{i}]", "offsets, sizes >= 0 and strides >= 1")
        last = start + (size - 1) * step
        # The first condition is for sizes of 0, the second for all other sizes.
        if not holds((start <= axis_size) & (last < axis_size)):
            last_index = last if holds(size != 0) else start - 1
            message = (
                f"{name}: offsets[{i}] + (sizes[{i}] − 1)·strides[{i}] is {last_index}, but x.shape[{i}] is {axis_size}"
            )
            raise DescError(message, name, f"sizes[{i}]", "the last element taken must lie inside x")
    return starts, result, steps


@rule
def slice_rule(maker: Maker, x: View, first: Integers, count: Integers, step: Integers) -> None:
    """``result[c] = x[first + step · c]``; steps may be negative."""
    maker.store(maker.window(x, first, count, step))


@function(check_slice, rule=slice_rule)
def slice(x: Array, offsets: Ints, sizes: Ints, strides: Ints | None = None, *, out: Array | None = None) -> Array:
    """Copy a strided box (DML_OPERATOR_SLICE, without its limits): ``result[c] = x[offsets + strides · c]``.

    Args:
        x: array of any shape and dtype.
        offsets: first coordinates, one per dimension.
        sizes: the result's shape.
        strides: steps of at least 1, one per dimension; 1 by default.
        out: output array of shape `sizes` and x's dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: counts differ from x's rank, a value is negative, or an element outside x would be read.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.slice(np.arange(10), [1], [3], [2])
        array([1, 3, 5])
    """
