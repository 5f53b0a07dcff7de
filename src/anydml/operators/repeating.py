"""`repeat` and `upsample`, and the rule of DML_OPERATOR_UPSAMPLE_2D: consecutive repetitions of elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml import infer
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.rule import FLAT, DescError, Integers, Maker, View, call_check, holds, rule
from anydml.symbols import are_at_least, are_known, one_or_more
from anydml.text import count_noun


@rule
def upsample_rule(maker: Maker, x: View, scales: Integers) -> None:
    """``result[c] = x[c // scales]``."""
    to: View = maker.result(maker.product(maker.sizes(x), scales))
    maker.copy(maker.split_each(to, maker.sizes(x), scales), maker.expand_each(x, scales, 1))


@rule
def repeat_rule(maker: Maker, x: View, counts: Integers, axis: int) -> None:
    """Repeat each element along an axis, or of the flattened array, by its own count or by the only one."""
    if counts.count != 1:
        if axis < 0:
            x = maker.flat(x)
            axis = 0
        to: View = maker.result(maker.resized(x, axis, maker.total(counts)))
        maker.copy(to, maker.pick(x, maker.constant(_source_numbers(counts.at)), axis, "clamp"))
    elif axis >= 0:
        to = maker.result(maker.resized(x, axis, x.sizes[axis] * counts.at[0]))
        to = maker.split(to, axis, maker.ints(x.sizes[axis], counts.at[0]))
        maker.copy(to, maker.expand(x, axis + 1, counts.at[0]))
    else:
        to = maker.result(maker.ints(maker.count(x) * counts.at[0]))
        maker.copy(maker.split(to, 0, maker.inserted(x, x.rank, counts.at[0])), maker.expand(x, x.rank, counts.at[0]))


def _source_numbers(counts: Sizes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the number of the source of each element of the result."""
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


@call_check
def check_repeat(name: str, shape: Sizes, repeats: Any, axis: Any) -> tuple[Sizes, int]:
    """Return the counts, and the axis."""
    counts: Sizes = one_or_more(name, "repeats", repeats)
    if len(counts) != 0 and not are_at_least(0, counts):
        raise DescError(f"{name}: repeats is {repeats}", name, "repeats", "repeats must be 0 or more")
    along: int = FLAT if axis is None else infer.axis_of(name, len(shape), axis)
    if len(counts) != 1 and not holds(len(counts) == (math.prod(shape) if along < 0 else shape[along])):
        size = math.prod(shape) if along < 0 else shape[along]
        message = f"{name}: repeats has {count_noun(len(counts), 'entry')} for {count_noun(size, 'element')}"
        raise DescError(message, name, "repeats", "one number, or one per element")
    if len(counts) != 1 and are_known(counts) and sum(counts) >= 1 << 60:
        message = f"{name}: repeats are {sum(counts)} in all"
        raise DescError(message, name, "repeats", "a result must have fewer than 2⁶³ bytes")
    return counts, along


@call_check
def check_scales(name: str, shape: Sizes, scales: Any) -> tuple[Sizes]:
    """Return the factors."""
    factors: Sizes = infer.vector(name, "scales", scales, len(shape))
    if len(factors) != 0 and not are_at_least(1, factors):
        raise DescError(f"{name}: scales is {list(factors)}", name, "scales", "each must be at least 1")
    return (factors,)


@function(check_repeat, rule=repeat_rule)
def repeat(x: Array, repeats: int | Ints, axis: int | None = None, *, out: Array | None = None) -> Array:
    """Repeat each element along an axis, like `numpy.repeat`.

    Args:
        x: array of any shape and dtype.
        repeats: number of repetitions, 0 or more: one number for all elements along `axis`, or one per element.
        axis: −rank to rank − 1; by default, the flattened array is repeated.
        out: output array of the result's shape and x's dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: `repeats` is negative or has the wrong length, or the axis is out of range.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.repeat(np.array([1, 2]), 2)
        array([1, 1, 2, 2])
        >>> dml.repeat(np.array([[1], [2]]), [1, 3], axis=0).ravel()
        array([1, 2, 2, 2])
    """


@function(check_scales, rule=upsample_rule)
def upsample(x: Array, scales: Ints, *, out: Array | None = None) -> Array:
    """Enlarge an array by nearest-neighbour interpolation (DML_OPERATOR_UPSAMPLE_2D, without its limits).

    Args:
        x: array of any shape and dtype.
        scales: integer factors, at least 1, one per dimension.
        out: output array of the result's shape and x's dtype.

    Returns:
        A new contiguous array, or `out`: ``result[c] = x[c // scales]``.

    Raises:
        DescError: `scales` does not have one entry per dimension, or one is less than 1.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.upsample(np.arange(4).reshape(2, 2), [1, 2])
        array([[0, 0, 1, 1],
               [2, 2, 3, 3]])
    """
