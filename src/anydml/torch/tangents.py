"""Forward mode: operators only move, so what happens to the data happens to its tangents.

PyTorch itself drops the tangents of what `torch.library` registers without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from anydml.operators.function import Function

KEYS = ("AutogradCPU", "AutogradCUDA", "AutogradMeta")
"""The dispatcher's keys of tensors that are moved, and of those without memory."""

_LEVEL = 0
"""The level of tangents: PyTorch has no other."""


def carrying(function: Function, general: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's own kernel for autograd, which records gradients, and tangents beside it.

    Args:
        function: what the operator does.
        general: the kernel; it takes the dispatcher's keys before the operator's arguments.
    """
    operator = getattr(torch.ops.anydml, function.name).default

    def carry(keys: Any, *arguments: Any) -> Any:
        # Compiled programs enter transforms without the level that goes with them.
        if forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active():
            return general(keys, *arguments)
        given = function.bound(arguments)
        kinds = [each.kind for each in function.parameters]
        data = [value for value, kind in zip(given, kinds, strict=True) if kind in ("Array", "Arrays")]
        duals = [forward_ad.unpack_dual(each, level=_LEVEL) for each in _tensors(data)]
        found = general(keys, *_with(given, kinds, [dual.primal for dual in duals]))
        if not torch._C._is_fwd_grad_enabled() or all(dual.tangent is None for dual in duals):
            return found
        tangents = [torch.zeros_like(dual.primal) if dual.tangent is None else dual.tangent for dual in duals]
        moved = operator(*linear(function, _with(given, kinds, tangents)))
        if function.lengths is not None:
            return forward_ad.make_dual(found[0], moved[0], level=_LEVEL), found[1]
        if function.has_parts:
            return [forward_ad.make_dual(*pair, level=_LEVEL) for pair in zip(found, moved, strict=True)]
        return forward_ad.make_dual(found, moved, level=_LEVEL)

    return carry


def linear(function: Function, given: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of the call that moves tangents: what is filled has none."""
    kinds = [each.kind for each in function.parameters]
    return tuple(0 if kind == "Scalar" else value for kind, value in zip(kinds, given, strict=True))


def _tensors(data: Sequence[Any]) -> list[Any]:
    return [tensor for each in data for tensor in ([each] if isinstance(each, torch.Tensor) else each)]


def _with(given: Sequence[Any], kinds: Sequence[str], tensors: Sequence[Any]) -> list[Any]:
    """The arguments with others as the data."""
    left = iter(tensors)
    return [
        [next(left) for _ in value] if kind == "Arrays" else next(left) if kind == "Array" else value
        for value, kind in zip(given, kinds, strict=True)
    ]
