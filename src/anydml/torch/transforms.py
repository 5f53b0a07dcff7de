"""The operators under torch.func, which PyTorch gives to autograd.Functions alone.

What is registered by `torch.library` is refused by torch.func.grad. So a call under such a transform goes through a
function that has gradients, tangents and batches, and whose innermost call is again the registered operator.
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
"""The dispatcher's key of torch.func's transforms."""


@dataclass(frozen=True)
class Rules:
    """What an operator is under a transform."""

    setup: Callable[..., None]
    backward: Callable[..., tuple[Any, ...]]
    batch: Callable[..., tuple[Any, Any]]


RULES: dict[str, Rules] = {}
"""By operator; filled where the operators are registered."""


FUNCTIONS: dict[str, Function] = {}
"""What each operator is derived from; filled where they are registered."""


def call(name: str, *arguments: Any) -> Any:
    """``torch.ops.anydml.<name>(*arguments)``, under any transform.

    Args:
        name: the operator.
        arguments: those of its schema, in order; the tensors first, or the list of tensors.
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
    """The results of a function, as a list."""
    return list(found) if function.has_parts else [found]


def _is_transformed() -> bool:
    # PyTorch has no public name for it. Inside of kernels, whose calls are the dispatcher's, the key is excluded.
    is_active: bool = torch._C._are_functorch_transforms_active()
    return is_active and not torch._C._dispatch_tls_is_dispatch_key_excluded(_FUNC)


@dataclass(frozen=True)
class _Call:
    """All of a call but its tensors, which torch.func wants one by one."""

    function: Function
    rest: tuple[Any, ...]

    def arguments(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The operator's arguments, with one value for each tensor."""
        return ([*values], *self.rest) if self.function.is_of_lists else (*values, *self.rest)

    def are_data(self, count: int) -> list[bool]:
        """Which of so many tensors have gradients: not indices and sizes."""
        if self.function.is_of_lists:
            return [True] * count
        return [each.kind == "Array" for each in self.function.parameters[:count]]


class _Transformed(torch.autograd.Function):  # type: ignore[misc]  # no types are read from PyTorch
    """An operator for one level of transforms."""

    @staticmethod
    def forward(made: _Call, *tensors: Any) -> Any:
        # Here no transform is left.
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
        # Every operator is linear in its data: what happens to the data happens to its tangents.
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
