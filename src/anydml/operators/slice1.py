"""DML_OPERATOR_SLICE1: a strided window, forwards or backwards (DML_SLICE1_OPERATOR_DESC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

from anydml import infer
from anydml.moves.program import Element
from anydml.operators.base import Coordinate, ListOf, OperatorDesc, Problem, ReadIndex, TensorDesc, record
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.rule import DescError, Integers, Maker, View, call_check, holds
from anydml.operators.slice import slice_rule
from anydml.operators.types import COPYING

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def first_copied(offset: int, size: int, stride: int) -> int:
    """Return the document's CopyStart in one dimension: the window's start, or its end if the stride is negative."""
    return offset + (size - 1 if stride < 0 else 0)


def max_copied_elements(window_size: int, stride: int) -> int:
    """``1 + (InputWindowSize − 1) / |InputWindowStride|`` (the document omits the absolute value)."""
    return 1 + (window_size - 1) // abs(stride)


class WindowDesc(OperatorDesc):
    """Base class of SLICE1 and SLICE_GRAD.

    Class attributes:
        WHOLE: the tensor that the window lies in.
        PART: the tensor of its elements.
    """

    __slots__ = ()

    input_window_offsets: tuple[int, ...]
    input_window_sizes: tuple[int, ...]
    input_window_strides: tuple[int, ...]

    WHOLE: ClassVar[str]
    PART: ClassVar[str]

    @property
    def start(self) -> tuple[int, ...]:
        """CopyStart."""
        return tuple(map(first_copied, self.input_window_offsets, self.input_window_sizes, self.input_window_strides))

    def constraints(self) -> Iterator[Problem]:
        """Check that the window is not empty and lies inside the whole, and that the part has no more elements."""
        (whole, tensor), (name, part) = self._named((self.WHOLE, self.PART))
        offsets, sizes, strides = self.input_window_offsets, self.input_window_sizes, self.input_window_strides
        yield from self.one_per_dimension("input_window_offsets", "input_window_sizes", tensor=self.WHOLE)
        yield from self.one_per_dimension("input_window_strides", tensor=self.WHOLE, are_signed=True)
        axes = zip(tensor.sizes, part.sizes, offsets, sizes, strides, strict=False)
        for i, (available, n, offset, size, stride) in enumerate(axes):
            if size < 1:
                message = f"InputWindowSizes[{i}] is {size}"
                yield self.problem(f"InputWindowSizes[{i}]", message, "the window must not be empty")
            if offset + size > available:
                end = f"InputWindowOffsets[{i}] + InputWindowSizes[{i}] is {offset + size}"
                message = f"{end}, but {whole}.Sizes[{i}] is {available}"
                yield self.problem(f"InputWindowSizes[{i}]", message, f"the window must lie inside {whole}")
            if stride == 0 or not INT_MIN <= stride <= INT_MAX:
                message = f"InputWindowStrides[{i}] is {stride}"
                yield self.problem(f"InputWindowStrides[{i}]", message, "a stride must be an INT and never 0")
            elif size >= 1 and n > (max_n := max_copied_elements(size, stride)):
                message = f"{name}.Sizes[{i}] is {n}, but a window of {size} with stride {stride} gives at most {max_n}"
                sizes_name = f"{name.removesuffix('Tensor')}Sizes"
                rule = f"1 <= {sizes_name}[i] <= 1 + (InputWindowSize[i] − 1) / |InputWindowStrides[i]|"
                yield self.problem(f"{name}.Sizes[{i}]", message, rule)

    def pairs(self) -> Iterator[tuple[Coordinate, Coordinate]]:
        """Yield, for each element of the part, its coordinate and that in the whole, by the document's pseudocode."""
        start = list(self.input_window_offsets)
        for i, stride in enumerate(self.input_window_strides):
            if stride < 0:
                start[i] += self.input_window_sizes[i] - 1
        for at in itertools.product(*map(range, getattr(self, self.PART).sizes)):
            yield at, tuple(o + s * c for o, s, c in zip(start, self.input_window_strides, at, strict=True))


@record
class Slice1OperatorDesc(WindowDesc):
    """DML_SLICE1_OPERATOR_DESC: ``Output[c] = Input[CopyStart + InputWindowStrides · c]``.

    Args:
        input_tensor: the tensor to read.
        output_tensor: the tensor to write; it may have fewer elements than the window, at least 1.
        input_window_offsets: the window's start, one coordinate per dimension.
        input_window_sizes: the window's extent, at least 1, one per dimension.
        input_window_strides: INT steps, never 0, one per dimension; negative ones start at the window's end.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.Slice1OperatorDesc(T("FLOAT32", [6]), T("FLOAT32", [6]), [0], [6], [-1]).problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    input_window_offsets: ListOf[int]
    input_window_sizes: ListOf[int]
    input_window_strides: ListOf[int]

    WHOLE, PART = "input_tensor", "output_tensor"
    LEVELS = COPYING

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write the window of the input, from CopyStart on with signed steps."""
        sizes, steps = self.output_tensor.sizes, self.input_window_strides
        slice_rule(maker, inputs[0], Integers(self.start), Integers(sizes), Integers(steps))

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``Output[c] = Input[CopyStart + InputWindowStrides · c]``."""
        for at, inside in self.pairs():
            yield 1, at, 0, inside


def check_window(
    name: str, field: str, shape: Sizes, window_offsets: Any, window_sizes: Any, window_strides: Any
) -> tuple[Sizes, Sizes, Sizes]:
    """Check SLICE1's window in a shape, which errors call `field`; return its offsets, sizes and strides.

    Raises:
        DescError: the window exceeds the shape, or a stride is 0.
    """
    rank: int = len(shape)
    offsets: Sizes = infer.vector(name, "window_offsets", window_offsets, rank)
    sizes: Sizes = infer.vector(name, "window_sizes", window_sizes, rank)
    steps: Sizes = infer.vector(name, "window_strides", window_strides, rank)
    for i in range(rank):
        axis_size, offset, size, step = shape[i], offsets[i], sizes[i], steps[i]
        if not holds((offset >= 0) & (size >= 0) & (offset + size <= axis_size)):
            message = f"{name}: the window in axis {i} is {offset} … {offset + size}, but {field}[{i}] is {axis_size}"
            raise DescError(message, name, f"window_sizes[{i}]", "the window must lie inside the axis")
        if not holds(step != 0):
            message = f"{name}: window_strides[{i}] is 0"
            raise DescError(message, name, f"window_strides[{i}]", "a stride must never be 0")
    return offsets, sizes, steps


def check_output_sizes(name: str, field: str, output_sizes: Sizes, sizes: Sizes, steps: Sizes) -> None:
    """Check that a window has as many elements as are taken; `field` names these sizes in errors.

    Raises:
        DescError: the output has fewer elements.
    """
    for i in range(len(output_sizes)):
        # For an empty window, floor division gives 0.
        max_n: int = max_copied_elements(sizes[i], steps[i])
        if not holds((output_sizes[i] >= 0) & (output_sizes[i] <= max_n)):
            message = f"{name}: {field}[{i}] is {output_sizes[i]}, but the window has {max_n} elements along this axis"
            raise DescError(message, name, f"{field}[{i}]", "it must be at most 1 + (window size − 1) / |stride|")


@call_check
def check_slice1(
    name: str, shape: Sizes, window_offsets: Any, window_sizes: Any, window_strides: Any, output_sizes: Any
) -> tuple[Sizes, Sizes, Sizes]:
    """Return first coordinates, the result's shape, and steps."""
    offsets, sizes, steps = check_window(name, "x.shape", shape, window_offsets, window_sizes, window_strides)
    rank: int = len(shape)
    starts: Sizes = tuple([first_copied(offsets[i], sizes[i], steps[i]) for i in range(rank)])
    if output_sizes is None:
        max_ns: Sizes = tuple([max_copied_elements(sizes[i], steps[i]) for i in range(rank)])
        return starts, max_ns, steps
    result_sizes: Sizes = infer.vector(name, "output_sizes", output_sizes, rank)
    check_output_sizes(name, "output_sizes", result_sizes, sizes, steps)
    return starts, result_sizes, steps


@function(check_slice1, rule=slice_rule)
def slice1(
    x: Array,
    window_offsets: Ints,
    window_sizes: Ints,
    window_strides: Ints,
    output_sizes: Ints | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Copy a strided window of an array, forwards or backwards (DML_OPERATOR_SLICE1, without its limits).

    Args:
        x: array of any shape and dtype.
        window_offsets: the window's start, one coordinate per dimension.
        window_sizes: the window's extent, one per dimension; 0 gives an empty result.
        window_strides: steps, never 0; negative ones start at the window's end.
        output_sizes: the result's shape; by default all elements of the window, ``1 + (size − 1) // |stride|``.
        out: output array of the result's shape and x's dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: the window exceeds x, a stride is 0, or `output_sizes` exceeds the window.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.slice1(np.arange(6), [1], [4], [-1])
        array([4, 3, 2, 1])
    """
