"""DML_OPERATOR_GATHER_ELEMENTS: selection along an axis, one index per element (DML_GATHER_ELEMENTS_OPERATOR_DESC)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

from anydml import infer
from anydml.moves import OutOfRange
from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Indices, Sizes, function
from anydml.operators.rule import DescError, Maker, Text, View, call_check, holds, rule
from anydml.operators.types import INDEXED


@rule
def gather_elements_rule(maker: Maker, x: View, indices: View, axis: int, outside: OutOfRange) -> None:
    """``result[c] = x[c with c[axis] := indices[c]]``."""
    maker.store(maker.pick_along(x, indices, axis, outside))


@record
class GatherElementsOperatorDesc(OperatorDesc):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: ``output[c] = input[c with c[Axis] := indices[c]]``.

    Args:
        input_tensor: the tensor to read.
        indices_tensor: indices along `axis`; its sizes are the input's except along `axis`. A negative index of a
            signed type counts from the end; other indices out of range are clamped.
        output_tensor: its sizes are those of `indices_tensor`.
        axis: 0 to DimensionCount − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.GatherElementsOperatorDesc(T("FLOAT32", [2, 2]), T("INT64", [1, 2]), T("FLOAT32", [1, 2]), axis=0)
        GatherElementsOperatorDesc(FLOAT32 [2, 2], INT64 [1, 2] → FLOAT32 [1, 2], axis 0)
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    LEVELS = INDEXED

    def constraints(self) -> Iterator[Problem]:
        """Check that only sizes along Axis differ."""
        yield from self.indices_match(self.indices_tensor, self.input_tensor, self.axis)
        yield from self.have_equal_sizes("indices_tensor", "output_tensor")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Pick by one index per element."""
        x, indices = inputs
        gather_elements_rule(maker, x, indices, self.axis, "clamp")

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``output[c] = input[c with c[Axis] := indices[c]]``, indices wrapped, then clamped."""
        size = self.input_tensor.sizes[self.axis]
        index = read(1, at)
        if index < 0:
            index += size
        source = [*at]
        source[self.axis] = min(max(index, 0), size - 1)
        return 0, tuple(source)


@call_check
def check_gather_elements(
    name: str, shape: Sizes, indices: Sizes, axis: Any, out_of_range: Text, dtype: Any
) -> tuple[int, Text]:
    """Return the axis, and the treatment of indices out of range."""
    along: int = infer.check_along(name, shape, indices, axis)
    if not holds((shape[along] >= 1) | (math.prod(indices) == 0)):
        message = f"{name}: axis {along} of x is empty, but there are indices"
        raise DescError(message, name, "x", "there must be an element to read")
    return along, out_of_range


@function(check_gather_elements, rule=gather_elements_rule)
def gather_elements(
    x: Array,
    indices: Indices,
    axis: int = 0,
    *,
    out_of_range: Literal["error", "clamp"] = "error",
    out: Array | None = None,
) -> Array:
    """Select one element per index along an axis (DML_OPERATOR_GATHER_ELEMENTS, without its limits).

    ``result[c] = x[c with c[axis] := indices[c]]``, like `numpy.take_along_axis` and `torch.gather`.

    Args:
        x: array of any shape with at least one dimension, and any dtype.
        indices: integers with x's rank, no longer than x except along `axis`. Negative ones count from the end.
        axis: −rank to rank − 1.
        out_of_range: ``"error"`` raises IndexError for an index outside the axis, before anything is written;
            ``"clamp"`` clamps it to the axis, as DirectML's operator does.
        out: output array of the indices' shape and x's dtype.

    Returns:
        An array of the indices' shape, new and contiguous, or `out`.

    Raises:
        DescError: indices are not integers or do not fit x's shape, or the axis is out of range or empty.
        IndexError: an index is outside the axis.
        BindingError: `out` does not fit, or overlaps x or the indices.

    Examples:
        >>> dml.gather_elements(np.array([[1, 2], [3, 4]]), np.array([[1, 0]]))
        array([[3, 2]])
    """
