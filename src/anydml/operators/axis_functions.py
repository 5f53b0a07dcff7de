"""`permute_dims`, `flip`, `roll`, `broadcast_to` and `stack`: axes in another order, direction, place or number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml import infer
from anydml.fields import check_dimensions
from anydml.moves.open_numbers import is_zero
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.rule import DescError, Integers, Maker, View, Views, call_check, int64, rule
from anydml.operators.slice import slice_rule
from anydml.symbols import are_at_least, are_equal, integers_or_symbols, one_or_more
from anydml.text import count_noun


def _distinct_axes(name: str, field: str, rank: int, axes: Sizes) -> Sizes:
    """Normalize distinct axes to 0 … rank − 1."""
    distinct: Sizes = tuple([infer.normalize_axis(name, rank, axes[k]) for k in range(len(axes))])
    for k in range(len(distinct)):
        for j in range(k):
            if distinct[j] == distinct[k]:
                raise DescError(f"{name}: {field} is {list(axes)}", name, field, "each axis must occur once")
    return distinct


@rule
def permute_rule(maker: Maker, x: View, axes: Integers) -> None:
    """Permute axes: axis k of the result is ``axes[k]`` of x."""
    maker.store(maker.permute(x, axes))


@call_check
def check_permute(name: str, shape: Sizes, axes: Any) -> tuple[Sizes]:
    """Return the axes from 0 on."""
    order: Sizes = integers_or_symbols(name, "axes", axes)
    if len(order) != len(shape):
        message = f"{name}: axes has {count_noun(len(order), 'entry')}, but x has {count_noun(len(shape), 'dimension')}"
        raise DescError(message, name, "axes", "one entry per dimension")
    return (_distinct_axes(name, "axes", len(shape), order),)


@function(check_permute, rule=permute_rule)
def permute_dims(x: Array, axes: Ints, *, out: Array | None = None) -> Array:
    """Permute an array's axes, like the array API's function, but with a copy.

    Args:
        x: array of any shape and dtype.
        axes: x's axes in the result's order; negative ones count from the end.
        out: output array of the result's shape and x's dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: `axes` is not a permutation of x's axes.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.permute_dims(np.arange(6).reshape(2, 3), [1, 0])
        array([[0, 3],
               [1, 4],
               [2, 5]])
    """


@call_check
def check_flip(name: str, shape: Sizes, axis: Any) -> tuple[Sizes, Sizes, Sizes]:
    """Return the first coordinates, the shape and the steps of the reversed array."""
    rank: int = len(shape)
    axes: Sizes = () if axis is None else _distinct_axes(name, "axis", rank, one_or_more(name, "axis", axis))
    steps: Sizes = tuple([-1 if axis is None or d in axes else 1 for d in range(rank)])
    starts: Sizes = tuple([shape[d] - 1 if steps[d] < 0 else 0 for d in range(rank)])
    return starts, tuple(shape), steps


@function(check_flip, rule=slice_rule)
def flip(x: Array, axis: int | Ints | None = None, *, out: Array | None = None) -> Array:
    """Reverse the order of elements along axes, like the array API's function.

    Args:
        x: array of any shape and dtype.
        axis: one axis or several, −rank to rank − 1; all by default.
        out: output array of x's shape and dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: an axis is out of range, or occurs twice.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.flip(np.arange(4))
        array([3, 2, 1, 0])
    """


@rule
def roll_rule(maker: Maker, x: View, shifts: Integers, is_flat: bool) -> None:
    """Roll each axis, or the flattened array, by its shift, with wrap-around."""
    if maker.is_empty(x):
        maker.result(maker.sizes(x))
        return
    if is_flat:
        to: View = maker.result(maker.sizes(x), maker.ints(maker.count(x)))
        _roll(maker, to, maker.flat(x), 0, shifts)
    else:
        _roll(maker, maker.result(maker.sizes(x)), x, 0, shifts)


@rule
def _roll(maker: Maker, to: View, x: View, axis: int, shifts: Integers) -> None:
    """Roll an axis and all later axes: write the elements that do not wrap around, then the others."""
    if axis == shifts.count:
        maker.copy(to, x)
        return
    size: int64 = x.sizes[axis]
    by: int64 = maker.wrapped(shifts.at[axis], size)
    if is_zero(by):
        _roll(maker, to, x, axis + 1, shifts)
        return
    unwrapped: View = maker.cut(to, axis, by, size - by, 1)
    _roll(maker, unwrapped, maker.cut(x, axis, 0, size - by, 1), axis + 1, shifts)
    _roll(maker, maker.cut(to, axis, 0, by, 1), maker.cut(x, axis, size - by, by, 1), axis + 1, shifts)


@call_check
def check_roll(name: str, shape: Sizes, shift: Any, axis: Any) -> tuple[Sizes, bool]:
    """Return one shift per axis, or one for the flattened array."""
    shifts: Sizes = one_or_more(name, "shift", shift)
    if axis is None:
        return (sum(shifts),) * 1, True
    rank: int = len(shape)
    named_axes: Sizes = one_or_more(name, "axis", axis)
    axes: Sizes = tuple([infer.normalize_axis(name, rank, named_axes[k]) for k in range(len(named_axes))])
    if len(shifts) != 1 and len(shifts) != len(axes):
        message = f"{name}: shift has {count_noun(len(shifts), 'entry')}, but axis has {len(axes)}"
        raise DescError(message, name, "shift", "one entry per axis, or one for all")
    by: Sizes = tuple([shift_along(shifts, axes, d) for d in range(rank)])
    return by, False


def shift_along(shifts: Sizes, axes: Sizes, axis: int) -> int:
    """Return the sum of the shifts of one axis."""
    shift: int = 0
    for k in range(len(axes)):
        if axes[k] == axis:
            shift += shifts[k if len(shifts) > 1 else 0]
    return shift


@function(check_roll, rule=roll_rule)
def roll(x: Array, shift: int | Ints, axis: int | Ints | None = None, *, out: Array | None = None) -> Array:
    """Roll elements along axes with wrap-around, like `numpy.roll`.

    Args:
        x: array of any shape and dtype.
        shift: number of places, one for all axes or one per axis; negative ones roll towards the start.
        axis: one axis or several, −rank to rank − 1; shifts of an axis that occurs twice are added. By default, the
            flattened array is rolled.
        out: output array of x's shape and dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: an axis is out of range, or the numbers of shifts and axes differ.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.roll(np.arange(4), 1, axis=0)
        array([3, 0, 1, 2])
    """


@rule
def broadcast_rule(maker: Maker, x: View, sizes: Integers) -> None:
    """Prepend axes, and repeat those of size 1."""
    maker.store(maker.broadcast(x, sizes))


@call_check
def check_broadcast(name: str, shape: Sizes, sizes: Any) -> tuple[Sizes]:
    """Return the result's shape."""
    target: Sizes = integers_or_symbols(name, "shape", sizes)
    check_dimensions(name, "the result", len(target))
    if not infer.is_broadcast(shape, target) or (len(target) != 0 and not are_at_least(0, target)):
        message = f"{name}: shape is {tuple(target)}, but x has shape {tuple(shape)}"
        raise DescError(message, name, "shape", "the last sizes must equal x's, except where x's are 1")
    return (target,)


@function(check_broadcast, rule=broadcast_rule)
def broadcast_to(x: Array, shape: Ints, *, out: Array | None = None) -> Array:
    """Broadcast an array by NumPy's rules, like the array API's function, but with a copy.

    Args:
        x: array of any shape and dtype.
        shape: the result's shape; its last sizes must equal x's, except where x's are 1.
        out: output array of this shape and x's dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: x cannot be broadcast to `shape`.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.broadcast_to(np.array([1, 2]), [2, 2])
        array([[1, 2],
               [1, 2]])
    """


@rule
def stack_rule(maker: Maker, arrays: Views, axis: int) -> None:
    """Stack arrays: coordinate k of the new axis is array k."""
    to: View = maker.result(maker.inserted(arrays[0], axis, len(arrays)))
    for k in range(len(arrays)):
        maker.copy(maker.at(to, axis, k), arrays[k])


@call_check
def check_stack(name: str, shapes: Sequence[Sizes], axis: Any) -> tuple[int]:
    """Return the axis."""
    if len(shapes) == 0:
        raise DescError(f"{name}: there are no arrays to stack", name, "arrays", "pass at least one array")
    first: Sizes = shapes[0]
    for i in range(len(shapes)):
        if not are_equal(shapes[i], first):
            message = f"{name}: arrays[{i}] has shape {tuple(shapes[i])}, but arrays[0] has {tuple(first)}"
            raise DescError(message, name, f"arrays[{i}]", "all arrays must have the same shape")
    check_dimensions(name, "the result", len(first) + 1)
    return (infer.axis_of(name, len(first) + 1, axis),)


@function(check_stack, rule=stack_rule)
def stack(arrays: Sequence[Array], axis: int = 0, *, out: Array | None = None) -> Array:
    """Stack arrays along a new axis, like the array API's function.

    Args:
        arrays: at least one array; all have the same shape and dtype.
        axis: position of the new axis in the result, −rank − 1 to rank.
        out: output array of the result's shape and dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: there are no arrays, their shapes or dtypes differ, or the axis is out of range.
        BindingError: `out` does not fit, or overlaps an input.

    Examples:
        >>> dml.stack([np.arange(2), np.arange(2)])
        array([[0, 1],
               [0, 1]])
    """
