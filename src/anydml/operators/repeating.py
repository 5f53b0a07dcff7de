"""`repeat` and `upsample`, and the move of DML_OPERATOR_UPSAMPLE_2D: consecutive repetitions of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml import infer
from anydml.errors import DescError
from anydml.moves import Access, Constant, Lookup, Move
from anydml.operators.function import Array, Composing, Inferred, Ints, Sizes, function
from anydml.symbols import are_at_least, holds, integers_or_symbols
from anydml.tensor import Layout, packed_strides
from anydml.text import counted


def repeat_moves(source: Layout, output: Layout, repeats: Sequence[int]) -> tuple[Move, ...]:
    """``output[c] = source[c // repeats]``: one move with source strides of 0 for the repetitions."""
    sizes: list[int] = []
    to: list[int] = []
    start: list[int] = []
    for size, n, step, own in zip(source.sizes, repeats, output.strides, source.strides, strict=True):
        sizes += (size,) if n == 1 else (size, n)
        to += (step,) if n == 1 else (n * step, step)
        start += (own,) if n == 1 else (own, 0)
    return (Move(tuple(sizes), Access(1, 0, tuple(to)), Access(0, 0, tuple(start)), source.element_size),)


def _inferred(name: str, field: str, shape: Sizes, repeats: Sizes, least: int) -> Inferred:
    if repeats and not are_at_least(least, repeats):
        raise DescError(f"{name}: {field} is {list(repeats)}", name, field, f"each must be at least {least}")
    return Inferred((repeats,), [tuple(size * n for size, n in zip(shape, repeats, strict=True))])


def _infer(name: str, shape: Sizes, given: Any, axis: Any) -> Inferred:
    counts = (given,) if isinstance(given, int) else integers_or_symbols(name, "repeats", given)
    if counts and not are_at_least(0, counts):
        raise DescError(f"{name}: repeats is {given}", name, "repeats", "repeats must be 0 or more")
    if axis is not None:
        axis = infer.axis_of(name, len(shape), axis)
    size = math.prod(shape) if axis is None else shape[axis]
    if len(counts) != 1 and not holds(len(counts) == size):
        message = f"{name}: repeats has {counted(len(counts), 'entry')} for {counted(size, 'element')}"
        raise DescError(message, name, "repeats", "one number, or one per element")
    whole = counts[0] * size if len(counts) == 1 else sum(counts)
    result = (whole,) if axis is None else (*shape[:axis], whole, *shape[axis + 1 :])
    return Inferred((counts, axis), [result])


def _infer_scales(name: str, shape: Sizes, scales: Any) -> Inferred:
    return _inferred(name, "scales", shape, infer.vector(name, "scales", scales, len(shape)), 1)


def _lower_repeat(source: Layout, output: Layout, counts: Sizes, axis: int | None) -> tuple[Move, ...]:
    own, size = source.strides, source.element_size
    if len(counts) > 1:
        at = 0 if axis is None else axis
        axes = range(len(source.sizes)) if axis is None else (axis,)
        strides = (*(0,) * at, 8 * len(axes), *(0,) * (len(output.sizes) - at - 1))
        lookups = tuple(Lookup(2, "int64", 8 * k, strides, source.sizes[d], own[d]) for k, d in enumerate(axes))
        still = (0,) if axis is None else (*own[:axis], 0, *own[axis + 1 :])
        return (Move(output.sizes, Access(1, 0, output.strides), Access(0, 0, still, lookups), size),)
    (count,) = counts
    if axis is not None:
        return repeat_moves(source, output, [count if d == axis else 1 for d in range(len(source.sizes))])
    (stride,) = output.strides
    to = tuple(n * count * stride for n in packed_strides(source.sizes))
    return (Move((*source.sizes, count), Access(1, 0, (*to, stride)), Access(0, 0, (*own, 0)), size),)


def _table(sizes: Sizes, counts: Sizes, axis: int | None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the source coordinates of each element of the result, one INT64 row per element."""
    places = np.repeat(np.arange(len(counts)), counts)
    if axis is not None:
        return np.ascontiguousarray(places[:, None], np.int64)
    return np.ascontiguousarray(np.stack(np.unravel_index(places, sizes), -1), np.int64)


def _constants(source: Layout, output: Layout, counts: Sizes, axis: int | None) -> tuple[Constant, ...]:
    return (_table(source.sizes, counts, axis),) if len(counts) > 1 else ()


def _compose_repeat(make: Composing, inputs: Sequence[Any], inferred: Inferred) -> list[Any]:
    counts, axis = inferred.parameters
    return [make.repeat(inputs[0], counts if len(counts) > 1 else counts[0], axis)]


@function(_infer, _lower_repeat, fixed=_constants, compose=_compose_repeat)
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


@function(_infer_scales, repeat_moves)
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
