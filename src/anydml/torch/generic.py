"""Gradients and batching rules for any function, used where none are written by hand.

Operators only move elements: each element of a result is either a fill value or ``x.flatten()[place]``. The places are
found by running the operator itself on x's element numbers 1, 2 …, where 0 marks a fill. The gradient is accumulated at
these places with a differentiable ``index_add``; a batch is indexed by them in one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch

from anydml.operators.function import Function
from anydml.torch.transforms import Rules, call, spread

_PICKS = ("Indices", "Mask")
"""Kinds of parameters that select elements."""


def rules(function: Function) -> Rules:
    """Return the gradient and batching rules of a function."""

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        given = function.bound(inputs)
        kinds = [each.kind for each in function.parameters]
        ctx.save_for_backward(*[value for value, kind in zip(given, kinds, strict=True) if kind in _PICKS])
        ctx.data = [
            [each.shape for each in value] if kind == "Arrays" else value.shape if kind == "Array" else None
            for value, kind in zip(given, kinds, strict=True)
        ]
        ctx.rest = [
            None if kind in ("Array", "Arrays", *_PICKS) else value for value, kind in zip(given, kinds, strict=True)
        ]

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        given = grads[0] if function.has_parts and isinstance(grads[0], (list, tuple)) else grads
        indices = iter(ctx.saved_tensors)
        kinds = [each.kind for each in function.parameters]
        arguments = [next(indices) if kind in _PICKS else rest for kind, rest in zip(kinds, ctx.rest, strict=True)]
        shapes = _every(ctx.data)
        like = given[0]
        found = _places(function, arguments, ctx.data, like.device)
        counts = [math.prod(shape) for shape in shapes]
        flat = like.new_zeros(sum(counts) + 1)
        flat = flat.index_add(0, _flat(found), _flat(given))
        starts = accumulate(counts, initial=1)
        each = zip(starts, counts, shapes, strict=False)
        parts = iter([flat.narrow(0, start, count).reshape(shape) for start, count, shape in each])
        every: list[Any] = []
        for shape, kind in zip(ctx.data, kinds, strict=True):
            if kind == "Arrays":
                every.append([next(parts) for _ in shape])
            else:
                every.append(next(parts) if kind == "Array" else None)
        return tuple(every[: len(ctx.needs_input_grad)])

    def batch(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        given = function.bound(arguments)
        # vmap also passes entries for arguments that are not tensors; these have no batch.
        dims = [dim if each.is_array else None for dim, each in zip(in_dims, function.parameters, strict=False)]
        dims += [None] * (len(given) - len(dims))
        kinds = [each.kind for each in function.parameters]
        if any(kind in _PICKS and dim is not None for kind, dim in zip(kinds, dims, strict=True)):
            found = _each_sample(function, info.batch_size, given, dims)
        else:
            found = _looked_up(function, info.batch_size, given, dims, kinds)
        return (found, [0] * len(found)) if function.has_parts else (found[0], 0)

    return Rules(setup, backward, batch)


def _each_sample(function: Function, count: int, given: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    """Call the operator once per sample, where the places differ between samples."""
    samples = []
    for k in range(count):
        arguments = [
            [each if at is None else each.select(at, k) for each, at in zip(value, dim, strict=True)]
            if isinstance(dim, (list, tuple))
            else value
            if dim is None
            else value.select(dim, k)
            for value, dim in zip(given, dims, strict=True)
        ]
        made = call(function.name, *arguments)
        samples.append(list(made) if function.has_parts else [made])
    return [torch.stack(parts) for parts in zip(*samples, strict=True)]


def _looked_up(
    function: Function, count: int, given: Sequence[Any], dims: Sequence[Any], kinds: Sequence[str]
) -> list[Any]:
    """Gather all samples at once, where the places are equal in every sample."""
    shapes: list[Any] = []
    rows: list[Any] = []
    single: list[Any] = []
    for value, dim, kind in zip(given, dims, kinds, strict=True):
        if kind not in ("Array", "Arrays"):
            shapes.append(None)
            single.append(value)
            continue
        values, where = (value, dim) if kind == "Arrays" else ([value], [dim])
        fronted = [
            each.expand(count, *each.shape) if at is None else each.movedim(at, 0)
            for each, at in zip(values, where or [None] * len(values), strict=True)
        ]
        rows += [each.reshape(count, math.prod(each.shape[1:])) for each in fronted]
        own = [tuple(each.shape[1:]) for each in fronted]
        shapes.append(own if kind == "Arrays" else own[0])
        zeros = [fronted[0].new_zeros(shape) for shape in own]
        single.append(zeros if kind == "Arrays" else zeros[0])
    found = _places(
        function, [None if s is not None else g for s, g in zip(shapes, given, strict=True)], shapes, rows[0].device
    )
    whole = torch.cat([rows[0].new_zeros(count, 1), *rows], 1)
    results = [whole.index_select(1, each.reshape(-1)).reshape(count, *each.shape) for each in found]
    if "Scalar" in kinds:
        # Fill values come from the call itself, not from a sample.
        filled = call(function.name, *single)
        every = filled if function.has_parts else [filled]
        results = [torch.where(each == 0, own, result) for each, own, result in zip(found, every, results, strict=True)]
    return results


def _places(function: Function, given: Sequence[Any], shapes: Sequence[Any], device: Any) -> list[Any]:
    """Return the place that each element of each result comes from, as INT64 tensors.

    A place is a 1-based index into the concatenation of all flattened data; 0 marks a fill.

    Args:
        function: the function.
        given: its arguments; those that are data are ignored.
        shapes: the data's shapes by parameter: one shape, or a list of shapes for a list of arrays.
        device: the device of the results.
    """
    start = 1

    def numbers(shape: Any) -> Any:
        nonlocal start
        count = math.prod(shape)
        start += count
        return torch.arange(start - count, start, device=device).reshape(shape)

    arguments: list[Any] = []
    for value, shape, parameter in zip(given, shapes, function.parameters, strict=True):
        if parameter.kind == "Arrays":
            arguments.append([numbers(each) for each in shape])
        elif parameter.kind == "Array":
            arguments.append(numbers(shape))
        else:
            arguments.append(0 if parameter.kind == "Scalar" else value)
    found = call(function.name, *arguments)
    return spread(function, found)


def _every(shapes: Sequence[Any]) -> list[Any]:
    """Flatten shapes by parameter into one list."""
    return [each for shape in shapes if shape is not None for each in (shape if isinstance(shape, list) else [shape])]


def _flat(tensors: Sequence[Any]) -> Any:
    return torch.cat([each.reshape(-1) for each in tensors]) if len(tensors) > 1 else tensors[0].reshape(-1)
