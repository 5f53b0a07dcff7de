"""DML_OPERATOR_REVERSE_SUBSEQUENCES: reversal of the first elements of each row (DML_…_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anydml import infer
from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Indices, Sizes, function
from anydml.operators.rule import DescError, Maker, View, call_check, holds, rule
from anydml.operators.types import ALL_TYPES, ONLY_UINT32, TYPES_8_TO_32
from anydml.tensor import DataType


@rule
def reverse_rule(maker: Maker, x: View, lengths: View, axis: int) -> None:
    """Copy x, and write the reversed part over it."""
    maker.reverse(maker.result_from(x), x, lengths, axis)


@record
class ReverseSubsequencesOperatorDesc(OperatorDesc):
    """DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC: the first L elements along Axis reversed, the others copied.

    Args:
        input_tensor: the tensor to read.
        sequence_lengths_tensor: L, UINT32 or UINT64, clamped to the axis' size; of the input's sizes, except 1 along
            `axis`.
        output_tensor: of the input's sizes.
        axis: 0 to DimensionCount − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.ReverseSubsequencesOperatorDesc(T("INT8", [2, 4]), T("UINT32", [2, 1]), T("INT8", [2, 4]), axis=1)
        ReverseSubsequencesOperatorDesc(INT8 [2, 4], UINT32 [2, 1] → INT8 [2, 4], axis 1)
    """

    input_tensor: TensorDesc
    sequence_lengths_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    SELECTING = "SequenceLengthsTensor"
    LEVELS = (
        ("5_0", 1, 8, ALL_TYPES, (DataType.UINT64, DataType.UINT32)),
        ("4_0", 1, 8, TYPES_8_TO_32, ONLY_UINT32),
        ("3_0", 4, 5, TYPES_8_TO_32, ONLY_UINT32),
        ("2_1", 4, 4, TYPES_8_TO_32, ONLY_UINT32),
    )

    def constraints(self) -> Iterator[Problem]:
        """One length per sequence; the output's sizes are the input's."""
        sizes = self.input_tensor.sizes
        expected, rule = (
            (*sizes[: self.axis], 1, *sizes[self.axis + 1 :]),
            "sizes must be InputTensor's, but 1 along Axis",
        )
        yield from self.sizes_are("sequence_lengths_tensor", expected, rule)
        yield from self.have_equal_sizes("input_tensor", "output_tensor")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Copy the input, and write the reversed part over it."""
        x, lengths = inputs
        reverse_rule(maker, x, lengths, self.axis)

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``output[c] = input[L − 1 − c]`` along Axis where c < L, else ``input[c]``."""
        axis = self.axis
        length = min(read(1, (*at[:axis], 0, *at[axis + 1 :])), self.input_tensor.sizes[axis])
        c = at[axis]
        return 0, (*at[:axis], length - 1 - c if c < length else c, *at[axis + 1 :])


@call_check
def check_reverse(name: str, shape: Sizes, lengths: Sizes, axis: Any, dtype: Any) -> tuple[int]:
    """Return the axis."""
    along: int = infer.axis_of(name, len(shape), axis)
    if not infer.are_equal_but(lengths, shape, along) or not holds(lengths[along] == 1):
        expected = (*shape[:along], 1, *shape[along + 1 :])
        message = f"{name}: lengths have shape {list(lengths)}, but must have {list(expected)}"
        raise DescError(message, name, "lengths", "lengths must have x's shape, but 1 along axis")
    return (along,)


@function(check_reverse, rule=reverse_rule)
def reverse_subsequences(x: Array, lengths: Indices, axis: int = -1, *, out: Array | None = None) -> Array:
    """Reverse the first elements of each row and copy the others (DML_OPERATOR_REVERSE_SUBSEQUENCES).

    ``result[c] = x[c with c[axis] := length − 1 − c[axis]]`` where that is not negative, else ``x[c]``;
    like `tensorflow.reverse_sequence` and ONNX's ReverseSequence.

    Args:
        x: array of any shape with at least one dimension, and any dtype.
        lengths: integers of x's shape, except 1 along `axis`; clamped to the axis' size. Negative ones count from the
            end: −1 is the whole axis.
        axis: −rank to rank − 1.
        out: output array of x's shape and dtype.

    Returns:
        An array of x's shape, new and contiguous, or `out`.

    Raises:
        DescError: lengths are not integers or have another shape, or the axis is out of range.
        BindingError: `out` does not fit, or overlaps an input.

    Examples:
        >>> dml.reverse_subsequences(np.arange(8).reshape(2, 4), np.array([[2], [4]]))
        array([[1, 0, 2, 3],
               [7, 6, 5, 4]])
    """
