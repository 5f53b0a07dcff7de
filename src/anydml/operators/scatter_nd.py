"""DML_OPERATOR_SCATTER_ND: updates of elements or blocks by coordinates (DML_SCATTER_ND_OPERATOR_DESC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

from anydml.moves import OutOfRange
from anydml.moves.program import Element
from anydml.operators.base import Problem, ReadIndex, TensorDesc, record
from anydml.operators.function import Array, Indices, Sizes, function
from anydml.operators.index_tuples import TupleDesc, check_tuples, drop_leading_dimensions
from anydml.operators.rule import DescError, Maker, Text, View, call_check, rule
from anydml.operators.types import INDEXED
from anydml.symbols import are_equal


@rule
def scatter_nd_rule(maker: Maker, x: View, updates: View, indices: View, outside: OutOfRange) -> None:
    """``result = x; result[*indices[c], r] = updates[c, r]``."""
    put_tuples(maker, maker.result_from(x), updates, indices, outside)


@rule
def put_tuples(maker: Maker, to: View, updates: View, indices: View, outside: OutOfRange) -> None:
    """Write blocks to coordinates; without coordinates, the last block to all of the place."""
    count: int = indices.rank - 1
    if indices.sizes[count]:
        maker.copy(maker.pick_tuples(to, indices, 0, outside), updates)
    elif maker.count(updates):
        for _ in range(count):
            updates = maker.at(updates, 0, updates.sizes[0] - 1)
        maker.copy(to, updates)


@record
class ScatterNdOperatorDesc(TupleDesc):
    """DML_SCATTER_ND_OPERATOR_DESC: ``output = input; output[indices[c] ++ r] = updates[c ++ r]``.

    DirectML does not define the treatment of indices outside the input, which are skipped here, nor of elements that
    are updated more than once, which get the last update in row-major order here.

    Args:
        input_tensor: the tensor to copy.
        indices_tensor: coordinates in its last dimension. A negative one of a signed type counts from the end.
        updates_tensor: the indices' sizes but the last, then the input's that are not indexed, right-aligned.
        output_tensor: of the input's sizes.
        input_dimension_count: significant dimensions of the input, 1 to DimensionCount; preceding ones are 1.
        indices_dimension_count: significant dimensions of the indices, 1 to DimensionCount; preceding ones are 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> whole, updates = T("INT8", [1, 4]), T("INT8", [1, 2])
        >>> dml.ScatterNdOperatorDesc(whole, T("INT64", [2, 1]), updates, whole, 1, 2).problems()
        no problems
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int

    LEVELS = INDEXED

    def constraints(self) -> Iterator[Problem]:
        """Counts in range; the updates' sizes as documented; an output of the input's sizes."""
        yield from TupleDesc.constraints(self)
        yield from self.have_equal_sizes("input_tensor", "output_tensor")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Copy the input, and write updates by coordinates in the significant dimensions."""
        x, indices, updates = inputs
        to = drop_leading_dimensions(maker, maker.result_from(x), self.input_dimension_count)
        indices = drop_leading_dimensions(maker, indices, self.indices_dimension_count)
        put_tuples(maker, to, drop_leading_dimensions(maker, updates, len(self.picked_sizes)), indices, "skip")

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output = input; output[indices[c] ++ r] = updates[c ++ r]``, in row-major order."""
        for at in itertools.product(*map(range, self.input_tensor.sizes)):
            yield 3, at, 0, at
        for at, to in self.picked_elements(read):
            if all(0 <= i < n for i, n in zip(to, self.input_tensor.sizes, strict=True)):
                yield 3, to, 2, at


@call_check
def check_scatter_nd(
    name: str, shape: Sizes, updates: Sizes, indices: Sizes, out_of_range: Text, dtype: Any
) -> tuple[Text]:
    """Return the treatment of indices out of range."""
    picked: Sizes = check_tuples(name, shape, indices, 0)
    if not are_equal(updates, picked):
        message = f"{name}: updates have shape {tuple(updates)}, but must have {tuple(picked)}"
        raise DescError(message, name, "updates", "there must be one update, or one block of them, per index")
    return (out_of_range,)


@function(check_scatter_nd, rule=scatter_nd_rule, may_update=True)
def scatter_nd(
    x: Array,
    indices: Indices,
    updates: Array,
    *,
    out_of_range: Literal["error", "skip"] = "error",
    out: Array | None = None,
) -> Array:
    """Copy an array and update elements or blocks by coordinates (DML_OPERATOR_SCATTER_ND, without its limits).

    ``result = x; result[*indices[c]] = updates[c]``, in row-major order: the last of several updates of an element
    wins. A negative coordinate counts from the end of its dimension.

    Args:
        x: array of any shape and dtype.
        indices: integers; the last dimension holds the leading coordinates of an element or block.
        updates: array of shape ``indices.shape[:-1] + x.shape[indices.shape[-1]:]`` and x's dtype.
        out_of_range: ``"error"`` raises IndexError for a coordinate outside its dimension, before anything is written;
            ``"skip"`` skips its update, as this package's DirectML operator does.
        out: output array of x's shape and dtype; may be x itself, which is updated in place then.

    Returns:
        An array of x's shape, new and contiguous, or `out`.

    Raises:
        DescError: indices are not integers or have too many coordinates, or shapes or dtypes are incompatible.
        IndexError: a coordinate is outside its dimension.
        BindingError: `out` does not fit, or overlaps an input without being x.

    Examples:
        >>> dml.scatter_nd(np.zeros((2, 2), int), np.array([[0, 1]]), np.array([5]))
        array([[0, 5],
               [0, 0]])
    """
