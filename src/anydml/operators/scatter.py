"""DML_OPERATOR_SCATTER, also called SCATTER_ELEMENTS: updates along an axis by indices (DML_SCATTER_OPERATOR_DESC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

from anydml import infer
from anydml.moves import OutOfRange
from anydml.moves.program import Element
from anydml.operators.base import OperatorDesc, Problem, ReadIndex, TensorDesc, record
from anydml.operators.function import Array, Indices, Sizes, function
from anydml.operators.rule import DescError, Maker, Text, View, call_check, rule
from anydml.operators.types import FLOATS_16_AND_32, INDEXED, ONLY_UINT32
from anydml.symbols import are_equal


@rule
def scatter_rule(maker: Maker, x: View, updates: View, indices: View, axis: int, outside: OutOfRange) -> None:
    """``result = x; result[c with c[axis] := indices[c]] = updates[c]``."""
    maker.copy(maker.pick_along(maker.result_from(x), indices, axis, outside), updates)


@record
class ScatterOperatorDesc(OperatorDesc):
    """DML_SCATTER_OPERATOR_DESC: ``output = input; output[c with c[Axis] := indices[c]] = updates[c]``.

    DirectML does not define the treatment of indices outside the axis, which are skipped here, nor of elements that are
    updated more than once, which here get the last update in row-major order.

    Args:
        input_tensor: the tensor to copy.
        indices_tensor: indices along `axis`; of the input's sizes except along `axis`. A negative index of a
            signed type counts from the end.
        updates_tensor: the new elements, of the sizes of `indices_tensor`.
        output_tensor: of the input's sizes.
        axis: 0 to DimensionCount − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.ScatterOperatorDesc(T("INT8", [4]), T("INT64", [2]), T("INT8", [2]), T("INT8", [4]), axis=0)
        ScatterOperatorDesc(INT8 [4], INT64 [2], INT8 [2] → INT8 [4], axis 0)
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    TYPES = ("DML_OPERATOR_SCATTER", "DML_OPERATOR_SCATTER_ELEMENTS")
    LEVELS = (*INDEXED, ("1_0", 4, 4, FLOATS_16_AND_32, ONLY_UINT32))

    def constraints(self) -> Iterator[Problem]:
        """Indices and updates of the input's sizes except along Axis; an output of its sizes."""
        yield from self.indices_match(self.indices_tensor, self.input_tensor, self.axis)
        yield from self.have_equal_sizes("indices_tensor", "updates_tensor")
        yield from self.have_equal_sizes("input_tensor", "output_tensor")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Copy the input, and write each update at its index."""
        x, indices, updates = inputs
        scatter_rule(maker, x, updates, indices, self.axis, "skip")

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output = input; output[c with c[Axis] := indices[c]] = updates[c]``, in row-major order."""
        for at in itertools.product(*map(range, self.input_tensor.sizes)):
            yield 3, at, 0, at
        size = self.input_tensor.sizes[self.axis]
        for at in itertools.product(*map(range, self.updates_tensor.sizes)):
            index = read(1, at)
            if index < 0:
                index += size
            if 0 <= index < size:
                to = [*at]
                to[self.axis] = index
                yield 3, tuple(to), 2, at


@call_check
def check_scatter(
    name: str, shape: Sizes, updates: Sizes, indices: Sizes, axis: Any, out_of_range: Text, dtype: Any
) -> tuple[int, Text]:
    """Return the axis, and the treatment of indices out of range."""
    along: int = infer.check_along(name, shape, indices, axis)
    if not are_equal(updates, indices):
        message = f"{name}: updates have shape {tuple(updates)}, but indices have {tuple(indices)}"
        raise DescError(message, name, "updates", "updates must have the shape of the indices")
    return along, out_of_range


@function(check_scatter, rule=scatter_rule, may_update=True)
def scatter(
    x: Array,
    indices: Indices,
    updates: Array,
    axis: int = 0,
    *,
    out_of_range: Literal["error", "skip"] = "error",
    out: Array | None = None,
) -> Array:
    """Copy an array and update elements along an axis (DML_OPERATOR_SCATTER, without its limits), like `torch.scatter`.

    ``result = x; result[c with c[axis] := indices[c]] = updates[c]``, in row-major order: the last of several updates
    of an element wins.

    Args:
        x: array of any shape with at least one dimension, and any dtype.
        indices: integers with x's rank, no longer than x except along `axis`. Negative ones count from the end.
        updates: array of the indices' shape and x's dtype.
        axis: −rank to rank − 1.
        out_of_range: ``"error"`` raises IndexError for an index outside the axis, before anything is written;
            ``"skip"`` skips its update, as this package's DirectML operator does.
        out: output array of x's shape and dtype; may be x itself, which is updated in place then.

    Returns:
        An array of x's shape, new and contiguous, or `out`.

    Raises:
        DescError: indices are not integers, shapes or dtypes do not fit, or the axis is out of range.
        IndexError: an index is outside the axis.
        BindingError: `out` does not fit, or overlaps an input without being x.

    Examples:
        >>> dml.scatter(np.zeros(4, int), np.array([2, 0]), np.array([7, 8]))
        array([8, 0, 7, 0])
    """
