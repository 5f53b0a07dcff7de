"""DML_OPERATOR_GATHER_ND and GATHER_ND1: selection of elements or blocks by coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from anydml.moves import OutOfRange
from anydml.moves.program import Element
from anydml.operators.base import ReadIndex, TensorDesc, record
from anydml.operators.function import Array, Indices, Sizes, function
from anydml.operators.index_tuples import TupleDesc, check_tuples, drop_leading_dimensions
from anydml.operators.rule import DescError, Maker, Text, View, call_check, holds, rule
from anydml.operators.types import INDEXED, Levels


@rule
def gather_nd_rule(maker: Maker, x: View, indices: View, batch: int, outside: OutOfRange) -> None:
    """``result[b, c, r] = x[b, *indices[b, c], r]``; without coordinates, all of x for each c."""
    count: int = indices.rank - 1
    if indices.sizes[count]:
        maker.store(maker.pick_tuples(x, indices, batch, outside))
        return
    for k in range(batch, count):
        x = maker.expand(x, k, indices.sizes[k])
    maker.store(x)


@record
class GatherNdOperatorDesc(TupleDesc):
    """DML_GATHER_ND_OPERATOR_DESC: ``output[c ++ r] = input[indices[c] ++ r]``.

    Args:
        input_tensor: the tensor to read.
        indices_tensor: coordinates in its last dimension. A negative one of a signed type counts from the end; what is
            still outside is clamped.
        output_tensor: the indices' sizes but the last, then the input's that are not indexed, right-aligned.
        input_dimension_count: significant dimensions of the input, 1 to DimensionCount; preceding ones are 1.
        indices_dimension_count: significant dimensions of the indices, 1 to DimensionCount; preceding ones are 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.GatherNdOperatorDesc(T("FLOAT32", [2, 2]), T("INT64", [3, 2]), T("FLOAT32", [1, 3]), 2, 2).problems()
        no problems
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int

    LEVELS: ClassVar[Levels] = INDEXED

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Pick by one list of coordinates per element, in the significant dimensions."""
        x = drop_leading_dimensions(maker, inputs[0], self.input_dimension_count)
        indices = drop_leading_dimensions(maker, inputs[1], self.indices_dimension_count)
        picked = maker.pick_tuples(x, indices, self.batch, "clamp")
        for _ in range(len(self.output_tensor.sizes) - picked.rank):
            picked = maker.expand(picked, 0, 1)
        maker.store(picked)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[c ++ r] = input[c[:b] ++ indices[c] ++ r]``, indices wrapped, then clamped."""
        for at, source in self.picked_elements(read):
            yield 2, at, 0, tuple(min(max(i, 0), n - 1) for i, n in zip(source, self.input_tensor.sizes, strict=True))


@record
class GatherNd1OperatorDesc(GatherNdOperatorDesc):
    """DML_GATHER_ND1_OPERATOR_DESC: ``output[c ++ r] = input[c[:b] ++ indices[c] ++ r]``.

    Args:
        input_tensor: the tensor to read.
        indices_tensor: coordinates in its last dimension. A negative one of a signed type counts from the end; what is
            still outside is clamped.
        output_tensor: the indices' sizes but the last, then the input's that are not indexed, right-aligned.
        input_dimension_count: significant dimensions of the input, 1 to DimensionCount; preceding ones are 1.
        indices_dimension_count: significant dimensions of the indices, 1 to DimensionCount; preceding ones are 1.
        batch_dimension_count: leading significant dimensions that all tensors share.

    Examples:
        >>> T = dml.TensorDesc
        >>> desc = dml.GatherNd1OperatorDesc(T("FLOAT32", [2, 2]), T("INT64", [3, 2]), T("FLOAT32", [1, 3]), 2, 2, 0)
        >>> desc.problems()
        no problems
    """

    batch_dimension_count: int

    LEVELS = INDEXED[:2]


@call_check
def check_gather_nd(
    name: str, shape: Sizes, indices: Sizes, batch_dims: int, out_of_range: Text, dtype: Any
) -> tuple[int, Text]:
    """Return the number of batch dimensions, and the treatment of indices out of range."""
    picked: Sizes = check_tuples(name, shape, indices, batch_dims)
    indexed: Sizes = tuple([shape[batch_dims + k] for k in range(int(indices[len(indices) - 1]))])
    if not holds((math.prod(picked) == 0) | (math.prod(indexed) >= 1)):
        message = f"{name}: x.shape is {tuple(shape)}, but there are indices"
        raise DescError(message, name, "x", "there must be an element to read")
    return batch_dims, out_of_range


@function(check_gather_nd, rule=gather_nd_rule)
def gather_nd(
    x: Array,
    indices: Indices,
    batch_dims: int = 0,
    *,
    out_of_range: Literal["error", "clamp"] = "error",
    out: Array | None = None,
) -> Array:
    """Select elements or blocks by coordinates (DML_OPERATOR_GATHER_ND1, without its limits), like ONNX's GatherND.

    ``result[b, c] = x[b, *indices[b, c]]``. A negative coordinate counts from the end of its dimension.

    Args:
        x: array of any shape and dtype.
        indices: integers; the last dimension holds the leading coordinates of an element or block.
        batch_dims: number of leading dimensions that x and indices share.
        out_of_range: ``"error"`` raises IndexError for a coordinate outside its dimension, before anything is written;
            ``"clamp"`` clamps it to the dimension, as DirectML's operator does.
        out: output array of the result's shape and x's dtype.

    Returns:
        An array of shape ``indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1]:]``, or `out`.

    Raises:
        DescError: indices are not integers or have too many coordinates, batch sizes differ, x is empty but
            `indices` is not, or the result has more than 64 dimensions.
        IndexError: a coordinate is outside its dimension.
        BindingError: `out` does not fit, or overlaps x or the indices.

    Examples:
        >>> dml.gather_nd(np.array([[1, 2], [3, 4]]), np.array([[0, 1], [1, 0]]))
        array([2, 3])
    """
