"""The operator lay_into_zeros, the gradient of slices: registered with PyTorch only."""

from __future__ import annotations

from typing import Any

from anydml import infer
from anydml.errors import DescError
from anydml.operators.function import Array, Function, Ints, Parameters, Sizes, parameters_of
from anydml.operators.slice_grad import scatter_window_rule, starts_inside
from anydml.symbols import holds


def lay_into_zeros(x: Array, sizes: Ints, starts: Ints, steps: Ints, *, out: Array | None = None) -> Array:
    """Scatter x into zeros: ``result[starts + steps · c] = x[c]``; the gradient of slice and slice1."""


def check_lay_into_zeros(name: str, shape: Sizes, sizes: Any, starts: Any, steps: Any) -> Parameters:
    """Check the arguments of a slice's gradient; return those of `scatter_window_rule`.

    Args:
        name: the function's name in errors.
        shape: x's shape.
        sizes: the result's shape.
        starts: coordinate of x's first element in the result.
        steps: steps between x's elements in the result; may be negative.

    Raises:
        DescError: counts differ from the rank, a size is negative, a step is 0, or an element would lie outside.
    """
    result = infer.vector(name, "sizes", sizes, len(shape))
    places = infer.vector(name, "starts", starts, len(shape))
    strides = infer.vector(name, "steps", steps, len(shape))
    for i, (count, size, start, step) in enumerate(zip(shape, result, places, strides, strict=True)):
        if not holds((size >= 0) & (step != 0)):
            message = f"{name}: sizes[{i}] is {size}, steps[{i}] {step}"
            raise DescError(message, name, f"sizes[{i}]", "sizes >= 0, and a step must never be 0")
        last = start + (count - 1) * step
        if not holds((count == 0) | ((start >= 0) & (start < size) & (last >= 0) & (last < size))):
            message = f"{name}: x goes to {start} … {last} of dimension {i}, but sizes[{i}] is {size}"
            raise DescError(message, name, f"starts[{i}]", "every element must lie inside the result")
    return result, starts_inside(name, places, shape), strides


LAY_INTO_ZEROS = Function(lay_into_zeros, parameters_of(lay_into_zeros), check_lay_into_zeros, scatter_window_rule)
