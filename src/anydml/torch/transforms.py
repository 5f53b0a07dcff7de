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
from anydml.torch.tangents import tangent_arguments

_functorch, _ops = torch._C._functorch, torch.ops.anydml

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
    values = function.with_defaults(arguments)
    tensors = [*values[0]] if function.is_of_lists else [value for value in values if isinstance(value, torch.Tensor)]
    other_arguments = tuple(values[1:] if function.is_of_lists else values[len(tensors) :])
    results = _Transformed.apply(_Call(function, other_arguments), *tensors)
    return list(results) if function.has_parts else results


def as_list(function: Function, results: Any) -> list[Any]:
    """Return the results of a function as a list."""
    return list(results) if function.has_parts else [results]


def _is_transformed() -> bool:
    # PyTorch has no public API for this. Inside kernels the dispatcher excludes the key.
    if not torch._C._are_functorch_transforms_active() or torch._C._dispatch_tls_is_dispatch_key_excluded(_FUNC):
        return False
    # torch.func.functionalize supports registered operators, but no autograd.Function.
    is_functionalized: bool = _functorch.peek_interpreter_stack().key() == _functorch.TransformType.Functionalize
    return not is_functionalized


@dataclass(frozen=True)
class _Call:
    """A call without its tensors, which autograd.Function takes as separate arguments."""

    function: Function
    other_arguments: tuple[Any, ...]

    def arguments(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the operator's arguments, with `values` in place of the tensors."""
        return ([*values], *self.other_arguments) if self.function.is_of_lists else (*values, *self.other_arguments)

    def are_data(self, count: int) -> list[bool]:
        """Return, for each of the first `count` tensors, whether it is differentiable data rather than indices."""
        if self.function.is_of_lists:
            return [True] * count
        return [parameter.kind == "Array" for parameter in self.function.parameters[:count]]


class _Transformed(torch.autograd.Function):  # type: ignore[misc]  # no types are read from PyTorch
    """An operator at one level of nested transforms."""

    @staticmethod
    def forward(call: _Call, *tensors: Any) -> Any:
        # All transforms have been peeled off here.
        results = getattr(_ops, call.function.name)(*call.arguments(tensors))
        return tuple(results) if isinstance(results, list) else results

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        call, *tensors = inputs
        ctx.call = call
        ctx.like = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        RULES[call.function.name].setup(ctx, call.arguments(tensors), output)
        are_data = call.are_data(len(tensors))
        ctx.save_for_forward(*[tensor for tensor, is_data in zip(tensors, are_data, strict=True) if not is_data])
        if call.function.lengths is not None:
            ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        call = ctx.call
        gradients = [grads] if call.function.has_parts else grads
        argument_gradients = RULES[call.function.name].backward(ctx, *gradients)
        data_gradients = (
            [*argument_gradients[0]] if call.function.is_of_lists else list(argument_gradients[: len(ctx.like)])
        )
        return None, *data_gradients, *[None] * (len(ctx.like) - len(data_gradients))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        # Operators are linear in their data, so tangents are moved exactly as the data is.
        recorded = ctx.call
        saved = iter(ctx.saved_tensors)
        values = [
            _or_zeros(tangent, like) if is_data else next(saved)
            for tangent, like, is_data in zip(tangents, ctx.like, recorded.are_data(len(tangents)), strict=True)
        ]
        results = call(recorded.function.name, *tangent_arguments(recorded.function, recorded.arguments(values)))
        if recorded.function.lengths is not None:
            return results[0], None
        return tuple(results) if isinstance(results, list) else results

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: _Call, *tensors: Any) -> tuple[Any, Any]:
        dims = call.arguments(in_dims[1:])
        results, where = RULES[call.function.name].batch(info, dims, *call.arguments(tensors))
        return (tuple(results), tuple(where)) if isinstance(results, list) else (results, where)


def _or_zeros(tangent: Any, like: Any) -> Any:
    shape, dtype, device = like
    return torch.zeros(shape, dtype=dtype, device=device) if tangent is None else tangent
