"""DML_OPERATOR_GATHER: selection along an axis by an index tensor (DML_GATHER_OPERATOR_DESC)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

from anydml import infer
from anydml.moves import OutOfRange
from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Indices, Sizes, function
from anydml.operators.rule import Maker, Text, View, call_check, rule
from anydml.operators.types import FLOATS_16_AND_32, INDEXED, ONLY_UINT32
from anydml.text import count_noun


@rule
def gather_rule(maker: Maker, x: View, indices: View, axis: int, outside: OutOfRange) -> None:
    """``result[lead, i, trail] = x[lead, indices[i], trail]``."""
    maker.store(maker.pick(x, indices, axis, outside))


@record
class GatherOperatorDesc(OperatorDesc):
    """DML_GATHER_OPERATOR_DESC: ``output[...] = input[..., indices[...], ...]``.

    Args:
        input_tensor: the tensor to read.
        indices_tensor: indices along `axis`; dimensions before the last `index_dimensions` are 1. A negative index of
            a signed type counts from the end; other indices out of range are clamped.
        output_tensor: leading sizes of the input, index sizes, trailing sizes of the input, right-aligned.
        axis: 0 to DimensionCount − 1.
        index_dimensions: 0 to DimensionCount; 0 is one scalar index, and the axis disappears.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.GatherOperatorDesc(T("FLOAT32", [6]), T("INT64", [2]), T("FLOAT32", [2]), axis=0, index_dimensions=1)
        GatherOperatorDesc(FLOAT32 [6], INT64 [2] → FLOAT32 [2], axis 0, index_dimensions 1)
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    index_dimensions: int

    LEVELS = (*INDEXED, ("1_0", 4, 4, FLOATS_16_AND_32, ONLY_UINT32))

    def constraints(self) -> Iterator[Problem]:
        """Check IndexDimensions, and the output's sizes."""
        sizes = self.indices_tensor.sizes
        ignored = len(sizes) - self.index_dimensions
        if not 0 <= ignored <= len(sizes):
            have = count_noun(len(sizes), "dimension")
            message = f"IndexDimensions is {self.index_dimensions}, but IndicesTensor has {have}"
            yield self.problem("IndexDimensions", message, "IndexDimensions must be 0 to DimensionCount")
            return
        if any(size != 1 for size in sizes[:ignored]):
            message = (
                f"IndicesTensor.Sizes is {list(sizes)}, but with IndexDimensions {self.index_dimensions} "
                f"its first {ignored} must be 1"
            )
            rule = (
                "the dimensions before the last IndexDimensions must be 1; DirectML leaves others undefined, "
                "and its drivers answer differently"
            )
            yield self.problem("IndicesTensor.Sizes", message, rule)
            return
        gathered, count = self._logical_sizes(), len(self.output_tensor.sizes)
        remaining = self._kept_dimensions()
        if len(remaining) > count:
            message = f"the gathered sizes {list(gathered)} do not fit OutputTensor's {count_noun(count, 'dimension')}"
            yield self.problem("OutputTensor.Sizes", message, "only leading sizes of 1 may be cropped")
            return
        expected = (1,) * (count - len(remaining)) + tuple(gathered[d] for d in remaining)
        rule = "sizes must be InputTensor's before Axis, the index sizes, InputTensor's after Axis, right-aligned"
        yield from self.sizes_are("output_tensor", expected, rule)

    def _logical_sizes(self) -> tuple[int, ...]:
        """Return leading, index and trailing sizes, before right-alignment."""
        sizes, axis, indices = self.input_tensor.sizes, self.axis, self.indices_tensor.sizes
        return (*sizes[:axis], *indices[len(indices) - self.index_dimensions :], *sizes[axis + 1 :])

    def _kept_dimensions(self) -> tuple[int, ...]:
        """Return the logical dimensions that remain in the output, without leading 1s if there are too many dimensions.

        Those of the input's leading part are dropped first, then those of the index part (example 3 of the document).
        """
        sizes = self._logical_sizes()
        remaining = list(range(len(sizes)))
        for first, last in ((0, self.axis), (self.axis, self.axis + self.index_dimensions)):
            for d in range(first, last):
                if len(remaining) <= len(self.output_tensor.sizes) or sizes[d] != 1:
                    break
                remaining.remove(d)
        return tuple(remaining)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Pick, without the indices' ignored dimensions, and with the output's leading 1s."""
        x, indices = inputs
        for _ in range(len(self.indices_tensor.sizes) - self.index_dimensions):
            indices = maker.at(indices, 0, 0)
        picked = maker.pick(x, indices, self.axis, "clamp")
        remaining = self._kept_dimensions()
        for d in reversed(range(picked.rank)):
            if d not in remaining:
                picked = maker.at(picked, d, 0)
        for _ in range(len(self.output_tensor.sizes) - len(remaining)):
            picked = maker.expand(picked, 0, 1)
        maker.store(picked)

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``output[...] = input[..., indices[...], ...]``, indices wrapped, then clamped."""
        axis, count, remaining = self.axis, self.index_dimensions, self._kept_dimensions()
        size = self.input_tensor.sizes[axis]
        padding = len(self.output_tensor.sizes) - len(remaining)
        ignored = len(self.indices_tensor.sizes) - count
        logical = [0] * len(self._logical_sizes())
        for d, c in zip(remaining, at[padding:], strict=True):
            logical[d] = c
        index = read(1, (*[0] * ignored, *logical[axis : axis + count]))
        if index < 0:
            index += size
        index = min(max(index, 0), size - 1)
        return 0, (*logical[:axis], index, *logical[axis + count :])


@call_check
def check_gather(
    name: str, shape: Sizes, index_shape: Sizes, axis: Any, out_of_range: Text, index_dtype: Any
) -> tuple[int, Text]:
    """Return the axis, which the indices' sizes replace, and the treatment of indices out of range."""
    along: int = infer.picked_axis(name, shape, axis, len(index_shape), math.prod(index_shape), index_dtype)
    return along, out_of_range


@function(check_gather, rule=gather_rule)
def gather(
    x: Array,
    indices: Indices,
    axis: int = 0,
    *,
    out_of_range: Literal["error", "clamp"] = "error",
    out: Array | None = None,
) -> Array:
    """Select elements along an axis by indices (DML_OPERATOR_GATHER, without its limits).

    Args:
        x: array of any shape with at least one dimension, and any dtype.
        indices: integers of any type and shape. A negative one counts from the end of the axis.
        axis: −rank to rank − 1.
        out_of_range: ``"error"`` raises IndexError for an index outside the axis, before anything is written;
            ``"clamp"`` clamps it to the axis, as DirectML's operator does.
        out: output array of the result's shape and x's dtype.

    Returns:
        An array of shape ``x.shape[:axis] + indices.shape + x.shape[axis+1:]``, new and contiguous, or `out`.

    Raises:
        DescError: indices are not integers, the axis is out of range, the axis is empty but `indices` is not, or the
            result has more than 64 dimensions.
        IndexError: an index is outside the axis.
        BindingError: `out` does not fit, or overlaps x or the indices.

    Examples:
        >>> dml.gather(np.array([[1, 2], [3, 4]]), [1, -1, 0])
        array([[3, 4],
               [3, 4],
               [1, 2]])
        >>> dml.gather(np.arange(5), [99], out_of_range="clamp")
        array([4])
    """
