"""Support for torch.func transforms.

torch.func.grad refuses operators registered through `torch.library`, and accepts only autograd.Functions. Under a
transform, calls therefore go through an autograd.Function with gradients, tangents and batching rules, whose innermost
call is the registered operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from anydml.operators.function import Function
from anydml.torch.tangents import linear

_ops = torch.ops.anydml

_FUNC = torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode
"""The dispatch key of torch.func transforms."""


@dataclass(frozen=True)
class Rules:
    """An operator's rules under transforms.

    Attributes:
        setup: ``setup(ctx, inputs, output)`` saves values for `backward`.
        backward: ``backward(ctx, *grads)`` returns one gradient per input.
        batch: ``batch(info, in_dims, *inputs)`` returns the outputs and their batch dimensions.
    """

    setup: Callable[..., None]
    backward: Callable[..., tuple[Any, ...]]
    batch: Callable[..., tuple[Any, Any]]


RULES: dict[str, Rules] = {}
"""Rules by operator, filled at registration."""


FUNCTIONS: dict[str, Function] = {}
"""The function of each operator, filled at registration."""


def call(name: str, *arguments: Any) -> Any:
    """Call ``torch.ops.anydml.<name>(*arguments)`` under any transform.

    Args:
        name: the operator's name.
        arguments: in the order of its schema, tensors or the list of tensors first.
    """
    if torch.compiler.is_compiling() or not _is_transformed():
        return getattr(_ops, name)(*arguments)
    function = FUNCTIONS[name]
    given = function.bound(arguments)
    tensors = [*given[0]] if function.is_of_lists else [value for value in given if isinstance(value, torch.Tensor)]
    rest = tuple(given[1:] if function.is_of_lists else given[len(tensors) :])
    found = _Transformed.apply(_Call(function, rest), *tensors)
    return list(found) if function.has_parts else found


def spread(function: Function, found: Any) -> list[Any]:
    """Return the results of a function as a list."""
    return list(found) if function.has_parts else [found]


def _is_transformed() -> bool:
    # PyTorch has no public API for this. Inside kernels the dispatcher excludes the key.
    is_active: bool = torch._C._are_functorch_transforms_active()
    return is_active and not torch._C._dispatch_tls_is_dispatch_key_excluded(_FUNC)


@dataclass(frozen=True)
class _Call:
    """A call without its tensors, which autograd.Function takes as separate arguments."""

    function: Function
    rest: tuple[Any, ...]

    def arguments(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the operator's arguments, with `values` in place of the tensors."""
        return ([*values], *self.rest) if self.function.is_of_lists else (*values, *self.rest)

    def are_data(self, count: int) -> list[bool]:
        """Return, for each of the first `count` tensors, whether it is differentiable data rather than indices."""
        if self.function.is_of_lists:
            return [True] * count
        return [each.kind == "Array" for each in self.function.parameters[:count]]


class _Transformed(torch.autograd.Function):  # type: ignore[misc]  # no types are read from PyTorch
    """An operator at one level of nested transforms."""

    @staticmethod
    def forward(made: _Call, *tensors: Any) -> Any:
        # All transforms have been peeled off here.
        found = getattr(_ops, made.function.name)(*made.arguments(tensors))
        return tuple(found) if isinstance(found, list) else found

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        made, *tensors = inputs
        ctx.made = made
        ctx.like = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        RULES[made.function.name].setup(ctx, made.arguments(tensors), output)
        are_data = made.are_data(len(tensors))
        ctx.save_for_forward(*[tensor for tensor, is_data in zip(tensors, are_data, strict=True) if not is_data])
        if made.function.lengths is not None:
            ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        made = ctx.made
        given = [grads] if made.function.has_parts else grads
        found = RULES[made.function.name].backward(ctx, *given)
        every = [*found[0]] if made.function.is_of_lists else list(found[: len(ctx.like)])
        return None, *every, *[None] * (len(ctx.like) - len(every))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        # Operators are linear in their data, so tangents are moved exactly as the data is.
        made = ctx.made
        saved = iter(ctx.saved_tensors)
        values = [
            _or_zeros(tangent, like) if is_data else next(saved)
            for tangent, like, is_data in zip(tangents, ctx.like, made.are_data(len(tangents)), strict=True)
        ]
        found = call(made.function.name, *linear(made.function, made.arguments(values)))
        if made.function.lengths is not None:
            return found[0], None
        return tuple(found) if isinstance(found, list) else found

    @staticmethod
    def vmap(info: Any, in_dims: Any, made: _Call, *tensors: Any) -> tuple[Any, Any]:
        dims = made.arguments(in_dims[1:])
        found, where = RULES[made.function.name].batch(info, dims, *made.arguments(tensors))
        return (tuple(found), tuple(where)) if isinstance(found, list) else (found, where)


def _or_zeros(tangent: Any, like: Any) -> Any:
    shape, dtype, device = like
    return torch.zeros(shape, dtype=dtype, device=device) if tangent is None else tangent
