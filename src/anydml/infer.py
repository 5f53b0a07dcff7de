"""What the functions refuse and what their results look like, from shapes, dtypes and numbers: without any array.

The functions on arrays and PyTorch's fake kernels ask here, so that a program is refused with the same words whether it
runs or is compiled. Sizes may be PyTorch's symbols. Every error is a `DescError`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.errors import DescError
from anydml.fields import check_dimensions, integer
from anydml.operators.slice1 import max_copied_elements
from anydml.symbols import are_at_least, are_equal, are_known, holds, integers_or_symbols

Sizes = tuple[int, ...]


def axis_of(name: str, rank: int, axis: Any) -> int:
    """An axis from 0 to rank − 1.

    Args:
        name: what errors call the function.
        rank: the array's dimensions.
        axis: −rank to rank − 1.

    Raises:
        DescError: it is no integer, or out of range.
    """
    if type(axis) is not int:
        axis = integer(name, "axis", axis)
    if not -rank <= axis < rank:
        message = f"{name}: axis is {axis}, but the array has {rank} dimensions"
        if not rank and name in ("join", "ConcatTraining"):
            message += ": pass a list of arrays, each with at least one dimension"
        raise DescError(message, name, "axis", f"axis is {-rank} to {rank - 1}" if rank else "at least one axis")
    found: int = axis % rank
    return found


def part_sizes(name: str, sizes_or_sections: Any, whole: int, axis: int, field: str = "sizes_or_sections") -> Sizes:
    """The parts' sizes along an axis of size `whole`.

    Args:
        name: what errors call the function.
        sizes_or_sections: a number of equal parts, or the parts' sizes.
        whole: the axis' size.
        axis: its number, for errors.
        field: what errors call `sizes_or_sections`.

    Raises:
        DescError: they are no integers, do not add up, or one is negative, or the axis does not divide.
    """
    if isinstance(sizes_or_sections, (int, np.integer)):
        return equal_parts(name, int(sizes_or_sections), whole, axis, field)
    sizes = integers_or_symbols(name, field, sizes_or_sections)
    if not sizes:
        raise DescError(f"{name}: {field} is empty: there are no parts", name, field, "at least one part")
    if not are_at_least(0, sizes):
        message = f"{name}: {field} has the sizes {_some(sizes)}, with a negative entry"
        raise DescError(message, name, field, "a part has 0 or more elements along axis")
    if not holds(sum(sizes) == whole):
        added = f"{field} has the sizes {_some(sizes)}, which add up to {sum(sizes)}"
        message = f"{name}: {added}, but axis {axis} has size {whole}"
        raise DescError(message, name, field, "the parts' sizes add up to the axis")
    return sizes


def equal_parts(name: str, count: int, whole: int, axis: int, field: str) -> Sizes:
    """The sizes of `count` equal parts.

    Raises:
        DescError: the axis does not divide.
    """
    if count < 1 or not holds(whole % count == 0):
        size = f"axis {axis} has size {whole}, which does not divide into {count} equal parts"
        message = f"{name}: {field} is {count}, but {size}"
        if count < 1:
            message += ": a number of parts is at least 1"
        raise DescError(message, name, field, "equal parts divide the axis")
    return (whole // count,) * count


def equal_part_count(name: str, shape: Sizes, dtype: Any, is_integer: bool, num_outputs: Any) -> int | None:
    """How many equal parts SplitTraining makes; None where the entries of `split` are the parts' sizes.

    Args:
        name: what errors call the function.
        shape: of `split`.
        dtype: of `split`, for errors.
        is_integer: whether it is a dtype of integers.
        num_outputs: the number of parts, or None.

    Raises:
        DescError: `split` is not 1-D or not of integers, or `num_outputs` is missing or is not its length.
    """
    if len(shape) != 1 or (shape[0] and not is_integer):
        message = f"{name}: split is {dtype} of shape {tuple(shape)}"
        raise DescError(message, name, "split", "split is a 1-D array of integers")
    count = None if num_outputs is None else integer(name, "num_outputs", num_outputs)
    if not shape[0]:
        if count is None:
            message = f"{name}: split is empty and num_outputs is not given"
            raise DescError(message, name, "num_outputs", "an empty split makes num_outputs equal parts")
        return count
    if count not in (None, shape[0]):
        message = f"{name}: split has {shape[0]} entries, but num_outputs is {count}"
        raise DescError(message, name, "num_outputs", "split has one entry an output")
    return None


def part_shapes(shape: Sizes, sizes: Sizes, axis: int) -> list[Sizes]:
    """The parts' shapes."""
    before, after = shape[:axis], shape[axis + 1 :]
    return [(*before, size, *after) for size in sizes]


def join(name: str, shapes: Sequence[Sizes], dtypes: Sequence[Any] | None, axis: Any) -> tuple[int, Sizes, Sizes]:
    """What is joined, and where.

    Args:
        name: what errors call the function.
        shapes: of the arrays.
        dtypes: of the arrays; None where they are known to fit together.
        axis: −rank to rank − 1.

    Returns:
        The axis from 0 to rank − 1, the arrays' sizes along it, and the result's shape.

    Raises:
        DescError: there are no arrays, the axis is out of range, or dtypes or shapes do not fit together.
    """
    if not shapes:
        raise DescError(f"{name}: there are no arrays to join", name, "arrays", "at least one array")
    first = shapes[0]
    axis = axis_of(name, len(first), axis)
    before, after = first[:axis], first[axis + 1 :]
    equal = operator.eq if all(map(are_known, shapes)) else are_equal
    for i, shape in enumerate(shapes[1:], 1):
        if dtypes is not None and dtypes[i] != dtypes[0]:
            message = f"{name}: arrays[{i}] is {dtypes[i]}, but arrays[0] is {dtypes[0]}"
            raise DescError(message, name, f"arrays[{i}]", "all arrays have one dtype")
        if not (len(shape) == len(first) and equal(shape[:axis], before) and equal(shape[axis + 1 :], after)):
            shown = f"arrays[{i}] has shape {tuple(shape)}, but arrays[0] has {tuple(first)}"
            message = f"{name}: {shown} and axis is {axis}"
            raise DescError(message, name, f"arrays[{i}]", "shapes are equal but along axis")
    lengths = tuple([shape[axis] for shape in shapes])
    return axis, lengths, (*before, sum(lengths), *after)


def slice_(name: str, shape: Sizes, offsets: Any, sizes: Any, strides: Any | None) -> tuple[Sizes, Sizes, Sizes]:
    """SLICE's first coordinates, result's shape, and steps.

    Args:
        name: what errors call the function.
        shape: of x.
        offsets: first coordinate, one a dimension.
        sizes: the result's shape.
        strides: steps of at least 1, one a dimension; None are all 1.

    Raises:
        DescError: counts differ from the rank, a value is negative, or an element outside would be read.
    """
    starts = vector(name, "offsets", offsets, len(shape))
    result = vector(name, "sizes", sizes, len(shape))
    steps = (1,) * len(shape) if strides is None else vector(name, "strides", strides, len(shape))
    for i, (whole, start, size, step) in enumerate(zip(shape, starts, result, steps, strict=True)):
        if not holds((start >= 0) & (size >= 0) & (step >= 1)):
            values = f"offsets[{i}] is {start}, sizes[{i}] {size}, strides[{i}] {step}"
            rule = "offsets count from 0, sizes are 0 or more, strides 1 or more"
            raise DescError(f"{name}: {values}: {rule}", name, f"sizes[{i}]", "offsets, sizes >= 0 and strides >= 1")
        last = start + (size - 1) * step
        # For a size of 0 the first says what the second says for others.
        if not holds((start <= whole) & (last < whole)):
            shown = last if holds(size != 0) else start - 1
            message = f"{name}: offsets[{i}] + (sizes[{i}] − 1)·strides[{i}] is {shown}, but x.shape[{i}] is {whole}"
            raise DescError(message, name, f"sizes[{i}]", "the last element taken lies inside x")
    return starts, result, steps


def slice1(
    name: str, shape: Sizes, window_offsets: Any, window_sizes: Any, window_strides: Any, output_sizes: Any | None
) -> tuple[Sizes, Sizes, Sizes, Sizes]:
    """SLICE1's window offsets, sizes and strides, and the result's shape.

    Args:
        name: what errors call the function.
        shape: of x.
        window_offsets: where the window begins, one a dimension.
        window_sizes: how far it extends, one a dimension.
        window_strides: steps, never 0, one a dimension.
        output_sizes: the result's shape; None is all that the window gives.

    Raises:
        DescError: the window leaves x, a stride is 0, or more is asked for than the window gives.
    """
    rank = len(shape)
    offsets = vector(name, "window_offsets", window_offsets, rank)
    sizes = vector(name, "window_sizes", window_sizes, rank)
    steps = vector(name, "window_strides", window_strides, rank)
    for i, (whole, offset, size, step) in enumerate(zip(shape, offsets, sizes, steps, strict=True)):
        if not holds((offset >= 0) & (size >= 0) & (offset + size <= whole)):
            message = f"{name}: window {offset} … {offset + size} of dimension {i}, but x.shape[{i}] is {whole}"
            raise DescError(message, name, f"window_sizes[{i}]", "the window lies inside x")
        if not holds(step != 0):
            message = f"{name}: window_strides[{i}] is 0"
            raise DescError(message, name, f"window_strides[{i}]", "a stride is never 0")
    # Floor division makes this 0 for an empty window.
    most = tuple(map(max_copied_elements, sizes, steps))
    if output_sizes is None:
        return offsets, sizes, steps, most
    result = vector(name, "output_sizes", output_sizes, rank)
    for i, (size, limit) in enumerate(zip(result, most, strict=True)):
        if not holds((size >= 0) & (size <= limit)):
            message = f"{name}: output_sizes[{i}] is {size}, but the window gives at most {limit}"
            raise DescError(message, name, f"output_sizes[{i}]", "at most 1 + (window size − 1) / |stride|")
    return offsets, sizes, steps, result


def gather(
    name: str, shape: Sizes, axis: Any, index_rank: int, count: int, dtype: Any, is_integer: bool, out_of_range: Any
) -> int:
    """GATHER's axis, from 0 to rank − 1. The result's shape is x's, with the indices' instead of the axis.

    Args:
        name: what errors call the function.
        shape: of x.
        axis: −rank to rank − 1.
        index_rank: dimensions of the indices.
        count: how many indices there are.
        dtype: of the indices, for errors.
        is_integer: whether it is a dtype of integers.
        out_of_range: ``"clamp"`` or ``"error"``.

    Raises:
        DescError: indices are not integers, the axis is out of range, it is empty and indices are not, or the result
            has more than 64 dimensions.
    """
    if not is_integer:
        message = f"{name}: indices are {dtype}, but only integers count: convert them first"
        raise DescError(message, name, "indices", "indices are integers")
    found = axis_of(name, len(shape), axis)
    check_dimensions(name, "the result", len(shape) - 1 + index_rank)
    if out_of_range not in ("clamp", "error"):
        message = f"{name}: out_of_range is {out_of_range!r}; it is 'clamp' or 'error'"
        raise DescError(message, name, "out_of_range", "out_of_range is 'clamp' or 'error'")
    if not holds((shape[found] >= 1) | (count == 0)):
        message = f"{name}: axis {found} of x is empty, but there are {count} indices"
        raise DescError(message, name, "x", "there is an element to read")
    return found


def laid_into_zeros(name: str, shape: Sizes, sizes: Any, starts: Any, steps: Any) -> tuple[Sizes, Sizes, Sizes]:
    """The result's shape, first coordinates and steps of what is laid into zeros: the gradient of a slice.

    Args:
        name: what errors call the function.
        shape: of x.
        sizes: the result's shape.
        starts: where x's first element goes.
        steps: from one element to the next; negative ones go backwards.

    Raises:
        DescError: counts differ from the rank, a size is negative, a step is 0, or an element would lie outside.
    """
    result = vector(name, "sizes", sizes, len(shape))
    places = vector(name, "starts", starts, len(shape))
    strides = vector(name, "steps", steps, len(shape))
    for i, (count, size, start, step) in enumerate(zip(shape, result, places, strides, strict=True)):
        if not holds((size >= 0) & (step != 0)):
            message = f"{name}: sizes[{i}] is {size}, steps[{i}] {step}"
            raise DescError(message, name, f"sizes[{i}]", "sizes >= 0, and a step is never 0")
        last = start + (count - 1) * step
        if not holds((count == 0) | ((start >= 0) & (start < size) & (last >= 0) & (last < size))):
            message = f"{name}: x goes to {start} … {last} of dimension {i}, but sizes[{i}] is {size}"
            raise DescError(message, name, f"starts[{i}]", "every element lies inside the result")
    return result, places, strides


def vector(name: str, field: str, values: Any, rank: int) -> Sizes:
    """One integer a dimension.

    Raises:
        DescError: they are no integers, or more or fewer.
    """
    result = integers_or_symbols(name, field, values)
    if len(result) != rank:
        message = f"{name}: {field} has {len(result)} entries, but x has {rank} dimensions"
        raise DescError(message, name, field, "one entry a dimension")
    return result


def _some(values: Sizes) -> str:
    return str(list(values)) if len(values) <= 16 else f"[{', '.join(map(str, values[:16]))}, … {len(values)} in all]"
