"""Gradients and batching rules for any function, used where none are written by hand.

Operators only move elements: each element of a result is either a fill value or one element of the flattened data. Its
*place* is found by running the operator itself on the numbers 1, 2 … of the data's elements, where 0 marks a fill. The
gradient is accumulated at these places by a differentiable ``index_add``; a batch is indexed by them in one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch

from anydml.operators.function import Function
from anydml.torch import batching
from anydml.torch.transforms import Rules, as_list, call

_DATA = ("Array", "Arrays")
"""Kinds of parameters whose elements are moved."""

_SELECTORS = ("Indices", "Mask")
"""Kinds of parameters that select elements."""


def derive_rules(function: Function) -> Rules:
    """Return the gradient and batching rules of a function."""
    parameter_types = [parameter.kind for parameter in function.parameters]

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        arguments = [*zip(function.with_defaults(inputs), parameter_types, strict=True)]
        ctx.save_for_backward(*[value for value, parameter_type in arguments if parameter_type in _SELECTORS])
        ctx.shapes = [
            [tensor.shape for tensor in value]
            if parameter_type == "Arrays"
            else value.shape
            if parameter_type == "Array"
            else None
            for value, parameter_type in arguments
        ]
        ctx.others = [None if parameter_type in (*_DATA, *_SELECTORS) else value for value, parameter_type in arguments]

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        incoming = grads[0] if function.has_parts and isinstance(grads[0], (list, tuple)) else grads
        saved = iter(ctx.saved_tensors)
        arguments = [
            next(saved) if parameter_type in _SELECTORS else other
            for parameter_type, other in zip(parameter_types, ctx.others, strict=True)
        ]
        shapes = _flat_shapes(ctx.shapes)
        like = incoming[0]
        places = _places(function, arguments, ctx.shapes, like.device)
        counts = [math.prod(shape) for shape in shapes]
        # Place 0, of fills, has no gradient.
        total = like.new_zeros(sum(counts) + 1).index_add(0, _flat(places), _flat(incoming))
        starts = accumulate(counts, initial=1)
        parts = iter(
            total.narrow(0, start, count).reshape(shape)
            for start, count, shape in zip(starts, counts, shapes, strict=False)
        )
        gradients: list[Any] = []
        for shape, parameter_type in zip(ctx.shapes, parameter_types, strict=True):
            if parameter_type == "Arrays":
                gradients.append([next(parts) for _ in shape])
            else:
                gradients.append(next(parts) if parameter_type == "Array" else None)
        return tuple(gradients[: len(ctx.needs_input_grad)])

    def batch(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        values = function.with_defaults(arguments)
        # vmap also passes entries for arguments that are not tensors, and so have no batch.
        dims = [
            dim if parameter.is_array else None for dim, parameter in zip(in_dims, function.parameters, strict=False)
        ]
        dims += [None] * (len(values) - len(dims))
        if any(
            parameter_type in _SELECTORS and dim is not None
            for parameter_type, dim in zip(parameter_types, dims, strict=True)
        ):
            results = _one_by_one(function, info.batch_size, values, dims)
        else:
            results = _at_once(function, info.batch_size, values, dims, parameter_types)
        return (results, [0] * len(results)) if function.has_parts else (results[0], 0)

    # Where samples differ in places, a rule of batching.py calls the operator once instead of once per sample.
    return Rules(setup, backward, getattr(batching, function.name, batch))


def _one_by_one(function: Function, count: int, values: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    """Call the operator once per sample, because the places differ between samples."""
    samples = []
    for k in range(count):
        arguments = [
            [_sample(tensor, tensor_dim, k) for tensor, tensor_dim in zip(value, dim, strict=True)]
            if isinstance(dim, (list, tuple))
            else _sample(value, dim, k)
            for value, dim in zip(values, dims, strict=True)
        ]
        samples.append(as_list(function, call(function.name, *arguments)))
    return [torch.stack(parts) for parts in zip(*samples, strict=True)]


def _sample(value: Any, dim: int | None, k: int) -> Any:
    return value if dim is None else value.select(dim, k)


def _at_once(
    function: Function, count: int, values: Sequence[Any], dims: Sequence[Any], parameter_types: Sequence[str]
) -> list[Any]:
    """Index all samples at once, because the places are the same in every sample."""
    shapes: list[Any] = []
    rows: list[Any] = []
    single: list[Any] = []
    for value, dim, parameter_type in zip(values, dims, parameter_types, strict=True):
        if parameter_type not in _DATA:
            shapes.append(None)
            single.append(value)
            continue
        tensors, tensor_dims = (value, dim) if parameter_type == "Arrays" else ([value], [dim])
        batches = [
            tensor.expand(count, *tensor.shape) if tensor_dim is None else tensor.movedim(tensor_dim, 0)
            for tensor, tensor_dim in zip(tensors, tensor_dims or [None] * len(tensors), strict=True)
        ]
        rows += [batch.reshape(count, math.prod(batch.shape[1:])) for batch in batches]
        sample_shapes = [tuple(batch.shape[1:]) for batch in batches]
        shapes.append(sample_shapes if parameter_type == "Arrays" else sample_shapes[0])
        zeros = [batches[0].new_zeros(shape) for shape in sample_shapes]
        single.append(zeros if parameter_type == "Arrays" else zeros[0])
    places = _places(function, values, shapes, rows[0].device)
    padded_rows = torch.cat([rows[0].new_zeros(count, 1), *rows], 1)
    results = [padded_rows.index_select(1, indices.reshape(-1)).reshape(count, *indices.shape) for indices in places]
    if "Scalar" in parameter_types:
        # Fill values come from a call on zeros.
        filled = as_list(function, call(function.name, *single))
        results = [
            torch.where(indices == 0, fill, result)
            for indices, fill, result in zip(places, filled, results, strict=True)
        ]
    return results


def _places(function: Function, values: Sequence[Any], shapes: Sequence[Any], device: Any) -> list[Any]:
    """Return the place that each element of each result comes from, as INT64 tensors.

    A place is a 1-based index into the concatenation of all flattened data; 0 marks a fill.

    Args:
        function: the function.
        values: the arguments; data is ignored.
        shapes: by parameter, the data's shape, or a list of shapes for a list of arrays; None for other parameters.
        device: the device of the results.
    """
    start = 1

    def numbers(shape: Any) -> Any:
        nonlocal start
        count = math.prod(shape)
        start += count
        return torch.arange(start - count, start, device=device).reshape(shape)

    arguments: list[Any] = []
    for value, shape, parameter in zip(values, shapes, function.parameters, strict=True):
        if parameter.kind == "Arrays":
            arguments.append([numbers(sizes) for sizes in shape])
        elif parameter.kind == "Array":
            arguments.append(numbers(shape))
        else:
            arguments.append(0 if parameter.kind == "Scalar" else value)
    return as_list(function, call(function.name, *arguments))


def _flat_shapes(shapes: Sequence[Any]) -> list[Any]:
    """Flatten shapes by parameter into one list."""
    return [part for shape in shapes if shape is not None for part in (shape if isinstance(shape, list) else [shape])]


def _flat(tensors: Sequence[Any]) -> Any:
    return torch.cat([tensor.reshape(-1) for tensor in tensors]) if len(tensors) > 1 else tensors[0].reshape(-1)
