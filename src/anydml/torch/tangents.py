"""Forward-mode gradients: operators are linear in their data, so tangents are moved exactly as the data is.

PyTorch silently drops the tangents of operators registered through `torch.library`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from anydml.operators.function import Function

KEYS = ("AutogradCPU", "AutogradCUDA", "AutogradMeta")
"""Dispatch keys for tensors on CPUs and GPUs, and for tensors without memory."""

_LEVEL = 0
"""The only forward-mode level that PyTorch supports."""


def with_tangents(function: Function, general: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an autograd kernel so that it also propagates tangents.

    Args:
        function: the operator's function.
        general: PyTorch's autograd kernel; takes the dispatch keys before the operator's arguments.
    """
    operator = getattr(torch.ops.anydml, function.name).default

    def carry(keys: Any, *arguments: Any) -> Any:
        # Compiled programs enter functorch transforms without entering a forward-mode level.
        if forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active():
            return general(keys, *arguments)
        values = function.with_defaults(arguments)
        kinds = [parameter.kind for parameter in function.parameters]
        data = [
            value for value, parameter_type in zip(values, kinds, strict=True) if parameter_type in ("Array", "Arrays")
        ]
        duals = [forward_ad.unpack_dual(tensor, level=_LEVEL) for tensor in _tensors(data)]
        results = general(keys, *_replace_data(values, kinds, [dual.primal for dual in duals]))
        if not torch._C._is_fwd_grad_enabled() or all(dual.tangent is None for dual in duals):
            return results
        tangents = [torch.zeros_like(dual.primal) if dual.tangent is None else dual.tangent for dual in duals]
        moved = operator(*tangent_arguments(function, _replace_data(values, kinds, tangents)))
        if function.lengths is not None:
            return forward_ad.make_dual(results[0], moved[0], level=_LEVEL), results[1]
        if function.has_parts:
            return [forward_ad.make_dual(*pair, level=_LEVEL) for pair in zip(results, moved, strict=True)]
        return forward_ad.make_dual(results, moved, level=_LEVEL)

    return carry


def tangent_arguments(function: Function, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of the call that moves tangents: fill values become 0."""
    kinds = [parameter.kind for parameter in function.parameters]
    return tuple(
        0 if parameter_type == "Scalar" else value for parameter_type, value in zip(kinds, values, strict=True)
    )


def _tensors(data: Sequence[Any]) -> list[Any]:
    return [tensor for item in data for tensor in ([item] if isinstance(item, torch.Tensor) else item)]


def _replace_data(values: Sequence[Any], kinds: Sequence[str], tensors: Sequence[Any]) -> list[Any]:
    """Replace the data among the arguments."""
    remaining = iter(tensors)
    return [
        [next(remaining) for _ in value]
        if parameter_type == "Arrays"
        else next(remaining)
        if parameter_type == "Array"
        else value
        for value, parameter_type in zip(values, kinds, strict=True)
    ]
