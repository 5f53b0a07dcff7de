"""DML_OPERATOR_ELEMENT_WISE_IF: selection from two tensors by a condition (DML_ELEMENT_WISE_IF_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anydml import infer
from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Mask, Sizes, function
from anydml.operators.rule import DescError, Integers, Maker, View, call_check, rule
from anydml.operators.types import ALL_TYPES, TYPES_8_TO_32
from anydml.tensor import DataType


@rule
def where_rule(maker: Maker, x: View, y: View, condition: View, sizes: Integers) -> None:
    """Write all of x, then y where the condition is 0; the three are broadcast."""
    to: View = maker.result_from(maker.broadcast(x, sizes))
    maker.copy(to, maker.unless(maker.broadcast(y, sizes), maker.broadcast(condition, sizes)))


@record
class ElementWiseIfOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_IF_OPERATOR_DESC: ``Output[c] = A[c] if Condition[c] != 0 else B[c]``.

    Args:
        condition_tensor: UINT8, of the output's sizes.
        a_tensor: source where the condition is not 0.
        b_tensor: source where the condition is 0.
        output_tensor: of the other tensors' sizes.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.ElementWiseIfOperatorDesc(T("UINT8", [4]), T("FLOAT32", [4]), T("FLOAT32", [4]), T("FLOAT32", [4]))
        ElementWiseIfOperatorDesc(UINT8 [4], FLOAT32 [4], FLOAT32 [4] → FLOAT32 [4])
    """

    condition_tensor: TensorDesc
    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc

    SELECTING = "ConditionTensor"
    LEVELS = (
        ("5_0", 1, 8, ALL_TYPES, (DataType.UINT8,)),
        ("3_0", 1, 8, TYPES_8_TO_32, (DataType.UINT8,)),
        # The operator's page prints FLOAT16 alone.
        ("2_0", 4, 4, (DataType.FLOAT16,), (DataType.UINT8,)),
    )

    def constraints(self) -> Iterator[Problem]:
        """Check that sizes agree."""
        yield from self.have_equal_sizes("a_tensor", "condition_tensor", "b_tensor", "output_tensor")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write all of A, then B where the condition is 0."""
        condition, a, b = inputs
        where_rule(maker, a, b, condition, maker.sizes(a))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``Output[c] = A[c] if Condition[c] != 0 else B[c]``."""
        return 1 if read(0, at) != 0 else 2, at


@call_check
def check_where(name: str, x: Sizes, y: Sizes, condition: Sizes, dtype: Any) -> tuple[Sizes]:
    """Return the shape to which all are broadcast."""
    partial: Sizes = infer.wider_sizes(name, condition, x)
    result: Sizes = infer.wider_sizes(name, partial, y)
    if not (infer.is_broadcast(condition, result) and infer.is_broadcast(x, result) and infer.is_broadcast(y, result)):
        text = f"condition has shape {tuple(condition)}, x has shape {tuple(x)}, y has shape {tuple(y)}"
        raise DescError(f"{name}: {text}", name, "condition", "sizes must be equal, or 1")
    return (result,)


@function(check_where, rule=where_rule)
def where(condition: Mask, x: Array, y: Array, *, out: Array | None = None) -> Array:
    """Select elements of x where a condition is true, else of y (DML_OPERATOR_ELEMENT_WISE_IF, without its limits).

    The three are broadcast, as in `numpy.where` and `torch.where`.

    Args:
        condition: array of bools, or of 8-bit integers, which are true if not 0.
        x: array of any shape and dtype.
        y: array of x's dtype.
        out: output array of the result's shape and x's dtype.

    Returns:
        A new contiguous array of the broadcast shape, or `out`.

    Raises:
        DescError: the condition has another dtype, the dtypes of x and y differ, or shapes cannot be broadcast.
        BindingError: `out` does not fit, or overlaps an input.

    Examples:
        >>> dml.where(np.array([True, False]), np.array([1, 2]), np.array([3, 4]))
        array([1, 4])
    """
