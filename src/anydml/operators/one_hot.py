"""DML_OPERATOR_ONE_HOT: one-hot encoding of indices (DML_ONE_HOT_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from anydml import infer
from anydml.fields import check_dimensions
from anydml.moves import OutOfRange
from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Indices, Sizes, function
from anydml.operators.rule import DescError, Maker, Text, View, call_check, holds, int64, rule
from anydml.operators.types import FLOATS_16_AND_32, INDEXED, ONLY_UINT32


@rule
def one_hot_rule(maker: Maker, values: View, indices: View, depth: int64, axis: int, outside: OutOfRange) -> None:
    """Fill with Off, then write On at the indices along a new axis."""
    off: View = maker.at(values, 0, 0)
    encode(maker, off, maker.at(values, 0, 1), maker.expand(indices, axis, 1), depth, axis, outside)


@rule
def encode(maker: Maker, off: View, on: View, indices: View, depth: int64, axis: int, outside: OutOfRange) -> None:
    """Fill with Off, then write On at the index of each line along an axis."""
    to: View = maker.result_from(maker.broadcast(off, maker.resized(indices, axis, depth)))
    maker.copy(maker.pick_along(to, indices, axis, outside), maker.broadcast(on, maker.sizes(indices)))


@record
class OneHotOperatorDesc(OperatorDesc):
    """DML_ONE_HOT_OPERATOR_DESC: ``output[c] = On if c[Axis] == indices[c with c[Axis] := 0] else Off``.

    Args:
        indices_tensor: of the output's sizes, except 1 along `axis`. A negative index of a signed type counts from the
            end; other indices out of range are ignored.
        values_tensor: Off, then On, along its last dimension of size 2 or more; further values are ignored.
        output_tensor: of any size along `axis`.
        axis: 0 to DimensionCount − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.OneHotOperatorDesc(T("INT64", [2, 1]), T("FLOAT32", [1, 2]), T("FLOAT32", [2, 3]), axis=1)
        OneHotOperatorDesc(INT64 [2, 1], FLOAT32 [1, 2] → FLOAT32 [2, 3], axis 1)
    """

    indices_tensor: TensorDesc
    values_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    SAME = ("output_tensor", "values_tensor")
    LEVELS = (*INDEXED, ("2_0", 4, 4, FLOATS_16_AND_32, ONLY_UINT32))

    def constraints(self) -> Iterator[Problem]:
        """One index along Axis; two values."""
        if all(size == 1 for size in self.values_tensor.sizes):
            message = f"ValuesTensor.Sizes is {list(self.values_tensor.sizes)}, but it holds OffValue and OnValue"
            yield self.problem("ValuesTensor.Sizes", message, "there must be at least 2 values")
        sizes, rule = self.output_tensor.sizes, "sizes must be OutputTensor's, but 1 along Axis"
        expected = (*sizes[: self.axis], 1, *sizes[self.axis + 1 :])
        yield from self.sizes_are("indices_tensor", expected, rule)

    def _on_coordinate(self) -> Coordinate:
        """Return the coordinate of On in ValuesTensor."""
        sizes = self.values_tensor.sizes
        last = max(d for d, size in enumerate(sizes) if size > 1)
        return tuple(int(d == last) for d in range(len(sizes)))

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write Off everywhere, then On by indices."""
        indices, off = inputs
        on = off
        for c in self._on_coordinate():
            off, on = maker.at(off, 0, 0), maker.at(on, 0, c)
        depth = self.output_tensor.sizes[self.axis]
        encode(maker, off, on, indices, depth, self.axis, "skip")

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``output[c] = On if c[Axis] == index else Off``, the index wrapped."""
        axis, size = self.axis, self.output_tensor.sizes[self.axis]
        off, on = (0,) * len(self.values_tensor.sizes), self._on_coordinate()
        index = read(0, (*at[:axis], 0, *at[axis + 1 :]))
        if index < 0:
            index += size
        return 1, on if index == at[axis] else off


@call_check
def check_one_hot(
    name: str, values: Sizes, shape: Sizes, depth: int, axis: Any, out_of_range: Text, dtype: Any
) -> tuple[int, int, Text]:
    """Return the number of classes, the axis, and the treatment of indices out of range."""
    if len(values) != 1 or not holds(values[0] == 2):
        message = f"{name}: values have shape {tuple(values)}"
        raise DescError(message, name, "values", "there must be two values: off and on")
    if depth < 0:
        raise DescError(f"{name}: depth is {depth}", name, "depth", "depth must be 0 or more")
    check_dimensions(name, "the result", len(shape) + 1)
    return depth, infer.axis_of(name, len(shape) + 1, axis), out_of_range


@function(check_one_hot, rule=one_hot_rule)
def one_hot(
    indices: Indices,
    values: Array,
    depth: int,
    axis: int = -1,
    *,
    out_of_range: Literal["error", "skip"] = "error",
    out: Array | None = None,
) -> Array:
    """Encode indices as one-hot vectors (DML_OPERATOR_ONE_HOT, without its limits).

    Args:
        indices: integers of any shape. A negative one counts from the end.
        values: array of two elements of any dtype: off and on.
        depth: the size of the new axis.
        axis: position of the new axis in the result, −rank − 1 to rank.
        out_of_range: ``"error"`` raises IndexError for an index outside the new axis, before anything is written;
            ``"skip"`` ignores it, as DirectML's operator does.
        out: output array of the result's shape and the values' dtype.

    Returns:
        An array of the indices' shape with one more axis, new and contiguous, or `out`.

    Raises:
        DescError: indices are not integers, there are not two values, depth is negative, the axis is out of range, or
            the result has more than 64 dimensions.
        IndexError: an index is outside the new axis.
        BindingError: `out` does not fit, or overlaps an input.

    Examples:
        >>> dml.one_hot(np.array([0, 2]), np.array([0, 1]), 3)
        array([[1, 0, 0],
               [0, 0, 1]])
    """
