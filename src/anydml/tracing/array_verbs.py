"""The verbs on traced arrays, of which all words are made: permute, reshape, cut, broadcast, join, fill.

Those that select by indices are in `picking`, and those that replace elements in `putting`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from anydml.arrays import read_argument
from anydml.arrays.receive import adapter_of
from anydml.functions.call_plans import check_size
from anydml.moves.new_axes import split_elements
from anydml.moves.open_numbers import are_same, is_one
from anydml.moves.sizing import Integers
from anydml.moves.value import Value
from anydml.moves.value_maker import ValueMaker, ValueView
from anydml.operators.split import split_rule
from anydml.tracing.constants import dtype_of, is_list, whole_number, whole_numbers
from anydml.tracing.refusing import MOVES_ONLY_RULE, fuse_error, refusal
from anydml.tracing.short_integers import pinned_number
from anydml.tracing.trace import TracedArray, with_needed_argument

OVERWRITE_REASON = "elements are written over others"


def axis_of(x: TracedArray, axis: Any) -> int:
    """Normalize an axis to 0 … rank − 1; PyTorch's tensors without dimensions have dimension 0, too."""
    return normalize_axis_index(operator.index(axis), max(x.ndim, x.MIN_RANK))


def axes_of(x: TracedArray, axes: Any, are_distinct: bool = True) -> tuple[int, ...]:
    """Normalize one axis or several; None stands for all axes.

    Raises:
        FuseError: an axis is named twice, and `are_distinct`.
    """
    if axes is None:
        return (*range(x.ndim),)
    if type(axes) in (tuple, list) and {*map(type, axes)} == {int} and len({*axes} & {*range(x.ndim)}) == len(axes):
        return (*axes,)
    rank = max(x.ndim, x.MIN_RANK)
    return distinct_axes(axes, rank) if are_distinct else normalize_axis_tuple(axes, rank, allow_duplicate=True)


def distinct_axes(axes: Any, rank: int, field: str = "axes") -> tuple[int, ...]:
    """Normalize one axis or several.

    Args:
        axes: −rank to rank − 1 each.
        rank: number of dimensions.
        field: the argument's name in errors.

    Raises:
        FuseError: an axis is named twice.
    """
    normalized = normalize_axis_tuple(axes, rank, field, allow_duplicate=True)
    repeated = next((axis for k, axis in enumerate(normalized) if axis in normalized[:k]), None)
    if repeated is not None:
        raise fuse_error(f"{field} {tuple(axes)} name axis {repeated} twice")
    return normalized


def sizes_of(shape: Any) -> tuple[int, ...]:
    """Convert a given shape, which may be one size, to a tuple.

    Raises:
        FuseError: a size is negative.
    """
    sizes = tuple(whole_numbers(shape))
    if any(size < 0 for size in sizes):
        raise fuse_error(f"the shape is {sizes}, but sizes must be 0 or more")
    return sizes


def shape_with(x: TracedArray, axis: int, *sizes: int) -> list[int]:
    """Return the shape of x with other sizes in place of an axis."""
    return [*x.shape[:axis], *sizes, *x.shape[axis + 1 :]]


def permute(x: TracedArray, axes: Sequence[int]) -> TracedArray:
    """Axis k of the result is axis ``axes[k]``."""
    return x.new_array(x.value.permute(axes))


def reshape(x: TracedArray, shape: Sequence[int]) -> TracedArray:
    """Reshape in row-major order."""
    sizes = x.value.sizes
    is_same = len(shape) == len(sizes) and tuple(shape) == sizes
    return x if is_same else x.new_array(x.trace.composer.reshape(x.value, tuple(shape)))


def window(x: TracedArray, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> TracedArray:
    """``result[c] = x[starts + steps · c]``."""
    return x.new_array(x.trace.composer.slice(x.value, starts, sizes, steps))


def cut(x: TracedArray, axis: int, start: int, size: int, step: int = 1) -> TracedArray:
    """Slice one axis; an empty slice may start anywhere."""
    if type(size) is int and not size:
        start, step = 0, 1
    starts, steps = [0] * x.ndim, [1] * x.ndim
    starts[axis], steps[axis] = start, step
    return window(x, starts, shape_with(x, axis, size), steps)


def maker(x: TracedArray) -> ValueMaker:
    """Return the maker that composes values of x's elements by operators' rules."""
    composer, name, dtype = x.trace.composer, x.trace.name, x.element
    return ValueMaker(composer, x.itemsize, lambda sizes: check_size(name, sizes, dtype), OVERWRITE_REASON)


def apply_rule(rule: Callable[..., None], x: TracedArray, *arguments: Any) -> list[TracedArray]:
    """Return the results of an operator's rule on an array."""
    make = maker(x)
    rule(make, ValueView(x.value), *arguments)
    return [x.new_array(value) for value in make.values()]


def split_axis(x: TracedArray, axis: int, sizes: Sequence[int]) -> list[TracedArray]:
    """Cut an axis into parts of these sizes."""
    return apply_rule(split_rule, x, Integers(sizes), axis)


def broadcast(x: TracedArray, shape: Any) -> TracedArray:
    """Broadcast by NumPy's rules.

    Raises:
        FuseError: x does not broadcast to this shape, or a size is negative.
        DescError: the result exceeds the address space.
    """
    sizes = sizes_of(shape)
    spread_array = broadcast_part(x, sizes)
    check_size(x.trace.name, sizes, x.element)
    return spread_array


def broadcast_part(x: TracedArray, sizes: tuple[int, ...]) -> TracedArray:
    """Broadcast to the shape of another array, or of a part of one.

    Raises:
        FuseError: x does not broadcast to this shape.
    """
    new_axes = len(sizes) - x.ndim
    if new_axes < 0 or not all(_is_broadcastable(size, n) for size, n in zip(x.shape, sizes[new_axes:], strict=True)):
        raise fuse_error(f"{x!r} does not broadcast to {sizes}: from the last axis on, sizes must be equal, or 1")
    return x.new_array(x.trace.composer.broadcast(x.value, sizes))


def _is_broadcastable(size: int, new_size: int) -> bool:
    """Whether a size broadcasts to another one."""
    return is_one(size) or are_same(size, new_size) or size in (new_size, 1)


def broadcast_all(arrays: Sequence[TracedArray]) -> tuple[TracedArray, ...]:
    """Broadcast arrays to each other; those of the common shape are returned themselves."""
    shape = common_shape([array.shape for array in arrays])
    return tuple(array if array.shape == shape else broadcast(array, shape) for array in arrays)


def common_shape(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast.

    Raises:
        FuseError: the shapes do not broadcast.
    """
    shape_so_far: list[int] = []
    for shape in shapes:
        shape_so_far[:0] = [1] * (len(shape) - len(shape_so_far))
        for k, size in enumerate(reversed(shape), 1):
            if _is_broadcastable(size, shape_so_far[-k]):
                continue
            if not _is_broadcastable(shape_so_far[-k], size):
                raise fuse_error(f"shapes {', '.join(map(str, shapes))} do not broadcast to each other")
            shape_so_far[-k] = size
    return tuple(shape_so_far)


def join(arrays: Sequence[TracedArray], axis: int) -> TracedArray:
    """Concatenate arrays along an axis.

    Raises:
        FuseError: there are none, or their shapes or dtypes are incompatible.
    """
    if not arrays:
        raise fuse_error("no arrays to join")
    first, *other_arrays = arrays
    axis = normalize_axis_index(axis, first.ndim)
    expected = shape_with(first, axis)
    for k, array in enumerate(other_arrays, 1):
        if array.element is not first.element and array.element != first.element:
            raise fuse_error(
                f"cannot join arrays of {first.element} and {array.element}, which would compute: "
                "convert them to one dtype first",
                rule=MOVES_ONLY_RULE,
            )
        if array.ndim != first.ndim or shape_with(array, axis) != expected:
            raise fuse_error(
                f"array {k} has shape {array.shape}, but array 0 has {first.shape}: "
                f"sizes must be equal except along axis {axis}"
            )
    like = next((array.like for array in arrays if array.like is not None), None)
    value = first.trace.composer.join([array.value for array in arrays], axis)
    return first.trace.new_array(value, first.element, like)


def native(x: TracedArray) -> TracedArray:
    """Return x with the dtype that NumPy gives to joined arrays: native byte order, and records without gaps.

    Raises:
        FuseError: the elements are records with fields in another byte order.
    """
    if x.element.isnative and not x.element.fields:
        return x
    dtype = np.promote_types(x.element, x.element)
    return x if dtype == x.element else _in_order(x, dtype)


def native_element(x: TracedArray) -> TracedArray:
    """Return a single element with the dtype of NumPy's scalars: in native byte order, except for records."""
    return x if x.element.fields else native(x)


def _in_order(x: TracedArray, dtype: np.dtype[Any]) -> TracedArray:
    """Store x with its dtype in another byte order, or without the gaps of records."""
    composer, rank = x.trace.composer, x.ndim
    if x.element.fields and dtype.fields:
        places = [(*x.element.fields[name][:2], dtype.fields[name][0]) for name in dtype.names or ()]
        if any(field != packed for field, _, packed in places):
            raise refusal(f"{x!r} in the machine's byte order", f"pass it as {dtype}")
        elements = split_elements(x.value, 1)
        packed = composer.join([composer.cut(elements, rank, at, field.itemsize, 1) for field, at, _ in places], rank)
        operand, strides = composer.new_scratch(packed, "the gaps of records are left out")
    else:
        unit = {"c": x.itemsize // 2, "U": 4}.get(x.element.kind, x.itemsize)
        parts = composer.split(split_elements(x.value, 1), rank, (x.itemsize // unit, unit))
        swapped = composer.cut(parts, rank + 1, unit - 1, unit, -1)
        operand, strides = composer.new_scratch(swapped, "the bytes of elements are swapped")
    return x.trace.new_array(Value.of_operand(operand, x.shape, strides[:rank], dtype.itemsize), dtype)


def join_native(arrays: Sequence[TracedArray], axis: int) -> TracedArray:
    """Join arrays, which may differ in byte order, and return the result as `native` does."""
    are_alike = len({array.element for array in arrays}) < 2
    return native(join(arrays if are_alike else [*map(native, arrays)], axis))


def fill(x: TracedArray, shape: Any = None, number: Any = None, dtype: Any = None) -> TracedArray:
    """Return an array filled with one number.

    Args:
        x: an array of the trace.
        shape: the result's shape, or its only size; by default x's.
        number: a constant, or a traced scalar of the result's dtype; None is NumPy's zero.
        dtype: a dtype of NumPy or PyTorch; by default x's.
    """
    sizes, element = x.shape if shape is None else sizes_of(shape), dtype_of(x, dtype)
    if isinstance(number, TracedArray):
        number = cast(x, number) if element == x.element else number
        if number.element != element:
            raise refusal(f"conversion of {number!r} to {element}")
        return broadcast(number, sizes)
    # NumPy's zero of strings is the empty string, not "0".
    pattern = np.zeros((), element) if number is None else _fill_element(x, number, element)
    if element.type is np.void and not element.names and pattern.any() and np.asarray(number).dtype != element:
        raise fuse_error(f"{number} as {element}, of which NumPy knows only the size: pad with 0, or join an array")
    if pattern.size != 1:
        raise fuse_error(f"the fill value must be one number, not {pattern.size}")
    value = Value.of_fill(sizes, x.trace.pattern(pattern))
    return x.trace.new_array(value, element, x.like if element == x.element else None)


def _fill_element(x: TracedArray, number: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert a number as assignments of the array's library do, which refuse some that do not fit."""
    number = pinned_number(number)
    if np.ndim(number):
        return np.asarray(number).astype(dtype, casting="unsafe")
    if x.INDEXES_LIKE_TORCH and (element := _torch_element(number, dtype)) is not None:
        return element
    scalar = np.empty((), dtype)
    scalar[...] = number
    return scalar


def _torch_element(number: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """Convert a fill value as PyTorch does; return None if it is not a number, or PyTorch has no such dtype.

    Raises:
        FuseError: PyTorch refuses the number.
    """
    import torch

    number = number.item() if isinstance(number, (np.generic, np.ndarray)) else number
    torch_dtype = getattr(torch, dtype.name, None)
    if type(number) not in (bool, int, float, complex) or not isinstance(torch_dtype, torch.dtype):
        return None
    try:
        # A single element is filled without a check.
        tensor = torch.full((2,), number, dtype=torch_dtype, device="cpu")[0]
    except (RuntimeError, TypeError) as error:
        raise fuse_error(f"{number} in a tensor of {dtype}: {error}") from None
    return read_argument("a number", tensor)[0]


def cast(x: TracedArray, value: Any) -> TracedArray:
    """Convert a constant to an array of x's dtype; of a traced array, only the byte order may change."""
    if isinstance(value, TracedArray):
        value, dtype = x.trace.array(value), x.element
        is_swapped = not dtype.fields and value.element != dtype and value.element == dtype.newbyteorder()
        return _in_order(value, dtype) if is_swapped else value
    if adapter_of(value) is not None:
        if is_list(value):
            return x.trace.array(value)
        value = value.item()
    array = value if isinstance(value, np.ndarray) else np.asarray(value, x.element) if is_list(value) else None
    if array is None or not array.ndim:
        return fill(x, (), value)
    return x.trace.array(array.astype(x.element))


def astype(x: TracedArray, dtype: Any) -> TracedArray:
    """Return x, which must have this dtype, if one is given."""
    if dtype_of(x, dtype) != x.element:
        raise with_needed_argument(refusal(f"conversion of {x!r} to {np.dtype(dtype)}"), x)
    return x


def windows(x: TracedArray, axis: int, size: Any, step: int) -> TracedArray:
    """Return the windows of an axis that has at least one dimension; their elements become the last axis."""
    if not x.ndim:
        # A scalar is one window of one element.
        rows = windows(reshape(x, (1,)), axis, size, step)
        return reshape(rows, rows.shape[1:])
    axis, length = axis_of(x, axis), whole_number(size)
    if not 0 <= length <= x.shape[axis] or step < 1:
        limits = f"the size must be 0 to {x.shape[axis]}, and the step at least 1"
        raise fuse_error(f"windows of size {size} and step {step} do not fit axis {axis} of {x!r}: {limits}")
    count = (x.shape[axis] - length) // step + 1
    return x.new_array(x.trace.composer.windows(x.value, axis, count, length, step))
