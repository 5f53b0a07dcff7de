"""DML_OPERATOR_SLICE_GRAD: the gradient of SLICE1, a window written into zeros (DML_SLICE_GRAD_OPERATOR_DESC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from anydml import infer
from anydml.moves.open_numbers import is_zero
from anydml.moves.program import Element
from anydml.operators.base import ListOf, ReadIndex, TensorDesc, record
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.rule import DescError, Integers, Maker, View, call_check, fill_around, rule
from anydml.operators.slice1 import WindowDesc, check_output_sizes, check_window, first_copied
from anydml.operators.types import ALL_TYPES, TYPES_8_TO_32
from anydml.symbols import are_at_least


@rule
def scatter_window_rule(maker: Maker, x: View, sizes: Integers, first: Integers, step: Integers) -> None:
    """``result = 0; result[first + step · c] = x[c]``."""
    to: View = maker.result(sizes)
    fill_around(maker, to, first, maker.sizes(x), step, None)
    maker.copy(maker.window(to, first, maker.sizes(x), step), x)


@record
class SliceGradOperatorDesc(WindowDesc):
    """DML_SLICE_GRAD_OPERATOR_DESC: ``Output = 0; Output[CopyStart + InputWindowStrides · c] = Input[c]``.

    Args:
        input_gradient_tensor: of the sizes of SLICE1's output.
        output_gradient_tensor: of the sizes of SLICE1's input; 0 where SLICE1 reads nothing.
        input_window_offsets: the window's start, one coordinate per dimension.
        input_window_sizes: the window's extent, at least 1, one per dimension.
        input_window_strides: INT steps, never 0, one per dimension; negative ones start at the window's end.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.SliceGradOperatorDesc(T("INT8", [2]), T("INT8", [6]), [0], [6], [3]).problems()
        no problems
    """

    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    input_window_offsets: ListOf[int]
    input_window_sizes: ListOf[int]
    input_window_strides: ListOf[int]

    WHOLE, PART = "output_gradient_tensor", "input_gradient_tensor"
    LEVELS = (
        ("4_1", 1, 8, ALL_TYPES),
        ("3_1", 1, 8, TYPES_8_TO_32),
        ("3_0", 4, 5, TYPES_8_TO_32),
    )

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write zeros around the window and in its gaps, and the input's elements."""
        sizes, step = Integers(self.output_gradient_tensor.sizes), Integers(self.input_window_strides)
        scatter_window_rule(maker, inputs[0], sizes, Integers(self.start), step)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """Follow the document's pseudocode: zeros, then the input's elements."""
        zero = bytes(self.output_gradient_tensor.data_type.itemsize)
        for at in itertools.product(*map(range, self.output_gradient_tensor.sizes)):
            yield 1, at, zero, ()
        for at, inside in self.pairs():
            yield 1, inside, 0, at


def starts_inside(name: str, starts: Sizes, shape: Sizes) -> Sizes:
    """Return the starts, with 0 for axes without elements, whose starts may be out of range."""
    return tuple([0 if is_zero(shape[d]) else starts[d] for d in range(len(shape))])


@call_check
def check_slice_grad(
    name: str, shape: Sizes, sizes: Any, offsets: Any, window: Any, strides: Any
) -> tuple[Sizes, Sizes, Sizes]:
    """Return the result's shape, x's first coordinates in it, and steps."""
    result: Sizes = infer.vector(name, "sizes", sizes, len(shape))
    if len(result) != 0 and not are_at_least(0, result):
        raise DescError(f"{name}: sizes is {list(result)}", name, "sizes", "each must be 0 or more")
    starts, lengths, steps = check_window(name, "sizes", result, offsets, window, strides)
    check_output_sizes(name, "x.shape", shape, lengths, steps)
    first: Sizes = tuple([first_copied(starts[d], lengths[d], steps[d]) for d in range(len(shape))])
    return result, starts_inside(name, first, shape), steps


@function(check_slice_grad, rule=scatter_window_rule)
def slice_grad(
    x: Array, sizes: Ints, window_offsets: Ints, window_sizes: Ints, window_strides: Ints, *, out: Array | None = None
) -> Array:
    """Write an array into a window of zeros, the gradient of `slice1` (DML_OPERATOR_SLICE_GRAD, without its limits).

    Args:
        x: array of any dtype, of the shape of `slice1`'s result, or smaller.
        sizes: the result's shape: that of `slice1`'s x.
        window_offsets: the window's start, one coordinate per dimension.
        window_sizes: the window's extent, one per dimension.
        window_strides: steps, never 0; negative ones start at the window's end.
        out: output array of shape `sizes` and x's dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: the window exceeds the result, a stride is 0, or x exceeds the window.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.slice_grad(np.array([7, 8]), [5], [1], [4], [2])
        array([0, 7, 0, 8, 0])
    """
