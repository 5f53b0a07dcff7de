"""`repeat` and `upsample`: each element several times, one after the other. DML_OPERATOR_UPSAMPLE_2D's move."""

from __future__ import annotations

from collections.abc import Sequence

from anydml import infer
from anydml.errors import DescError
from anydml.moves import Access, Move
from anydml.operators.function import Array, Inferred, Ints, Parameters, Sizes, function
from anydml.symbols import are_at_least
from anydml.tensor import Layout


def repeat_moves(source: Layout, output: Layout, repeats: Sequence[int]) -> tuple[Move, ...]:
    """``output[c] = source[c / repeats]``, rounded down: one move, whose source stands still meanwhile."""
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
        raise DescError(f"{name}: {field} is {list(repeats)}", name, field, f"each is at least {least}")
    return Inferred((repeats,), [tuple(size * n for size, n in zip(shape, repeats, strict=True))])


def _infer(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    (shape,), (count, axis) = shapes, arguments
    if count < 0:
        raise DescError(f"{name}: repeats is {count}", name, "repeats", "repeats is 0 or more")
    axis = infer.axis_of(name, len(shape), axis)
    return _inferred(name, "repeats", shape, tuple(count if d == axis else 1 for d in range(len(shape))), 0)


def _infer_scales(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    (shape,), (scales,) = shapes, arguments
    return _inferred(name, "scales", shape, infer.vector(name, "scales", scales, len(shape)), 1)


def _lower(
    inputs: Sequence[Layout], outputs: Sequence[Layout], parameters: Parameters, is_packed: bool
) -> tuple[Move, ...]:
    (source,), (output,), (repeats,) = inputs, outputs, parameters
    return repeat_moves(source, output, repeats)


@function(_infer, _lower)
def repeat(x: Array, repeats: int, axis: int, *, out: Array | None = None) -> Array:
    """Each element along an axis several times, one after the other, as `numpy.repeat` by one number.

    Args:
        x: array of any shape with at least one dimension, and any dtype.
        repeats: how often, 0 or more.
        axis: −rank to rank − 1.
        out: array of the result's shape and x's dtype to write to.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: `repeats` is negative, or the axis is out of range.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.repeat(np.array([1, 2]), 2, axis=0)
        array([1, 1, 2, 2])
    """


@function(_infer_scales, _lower)
def upsample(x: Array, scales: Ints, *, out: Array | None = None) -> Array:
    """The nearest neighbour at a multiple of the size (DML_OPERATOR_UPSAMPLE_2D, without its limits).

    Args:
        x: array of any shape and dtype.
        scales: how many times as large, at least 1, one a dimension.
        out: array of the result's shape and x's dtype to write to.

    Returns:
        A new contiguous array, or `out`: ``result[c] = x[c // scales]``.

    Raises:
        DescError: `scales` are not one a dimension, or one is less than 1.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.upsample(np.arange(4).reshape(2, 2), [1, 2])
        array([[0, 0, 1, 1],
               [2, 2, 3, 3]])
    """
