"""The operators under torch.func and in forward mode, which PyTorch gives to autograd.Functions alone.

What is registered by `torch.library` is refused by torch.func.grad, and loses tangents without a word. So a call under
such a transform goes through a function that has gradients, tangents and batches, and whose innermost call is again the
registered operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

_ops = torch.ops.anydml

_FUNC = torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode


@dataclass(frozen=True)
class Rules:
    """What an operator is under a transform."""

    setup: Callable[..., None]
    backward: Callable[..., tuple[Any, ...]]
    batch: Callable[..., tuple[Any, Any]]


RULES: dict[str, Rules] = {}
"""By operator; filled where the operators are registered."""


def call(name: str, *arguments: Any) -> Any:
    """``torch.ops.anydml.<name>(*arguments)``, under any transform.

    Args:
        name: the operator.
        arguments: those of its schema, in order; the tensors first, or the list of tensors.
    """
    if torch.compiler.is_compiling() or not _is_transformed():
        return getattr(_ops, name)(*arguments)
    data = arguments[0]
    is_list = isinstance(data, Sequence)
    tensors = [*data] if is_list else [value for value in arguments if isinstance(value, torch.Tensor)]
    rest = arguments[1:] if is_list else arguments[len(tensors) :]
    found = _Transformed.apply(_Call(name, is_list, rest), *tensors)
    return list(found) if name in ("split", "split_training") else found


def _is_transformed() -> bool:
    # PyTorch has no public name for either. Inside of kernels, whose calls are the dispatcher's, the key is excluded.
    under_func = torch._C._are_functorch_transforms_active() and not torch._C._dispatch_tls_is_dispatch_key_excluded(
        _FUNC
    )
    return bool(under_func or forward_ad._current_level >= 0)


@dataclass(frozen=True)
class _Call:
    """All of a call but its tensors, which torch.func wants one by one."""

    name: str
    is_list: bool
    rest: tuple[Any, ...]

    def arguments(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The operator's arguments, with one value for each tensor."""
        return ([*values], *self.rest) if self.is_list else (*values, *self.rest)

    def data(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values of tensors that have gradients: not of indices and sizes."""
        return values if self.is_list else values[:1]


class _Transformed(torch.autograd.Function):  # type: ignore[misc]  # no types are read from PyTorch
    """An operator for one level of transforms."""

    @staticmethod
    def forward(made: _Call, *tensors: Any) -> Any:
        # Here no transform is left.
        found = getattr(_ops, made.name)(*made.arguments(tensors))
        return tuple(found) if isinstance(found, list) else found

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        made, *tensors = inputs
        ctx.made = made
        ctx.like = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        RULES[made.name].setup(ctx, made.arguments(tensors), output)
        ctx.save_for_forward(*tensors[len(made.data(tensors)) :])
        if made.name == "concat_training":
            ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        made = ctx.made
        given = [grads] if made.name in ("split", "split_training") else grads
        found = RULES[made.name].backward(ctx, *given)[0]
        found = found if made.is_list else [found]
        return None, *found, *[None] * (len(ctx.like) - len(found))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        # Every operator is linear in its data: what happens to the data happens to its tangents.
        made = ctx.made
        data = [_or_zeros(*pair) for pair in zip(made.data(tangents), ctx.like, strict=False)]
        found = call(made.name, *made.arguments([*data, *ctx.saved_tensors]))
        if made.name == "concat_training":
            return found[0], None
        return tuple(found) if isinstance(found, list) else found

    @staticmethod
    def vmap(info: Any, in_dims: Any, made: _Call, *tensors: Any) -> tuple[Any, Any]:
        dims = made.arguments(in_dims[1:])
        found, where = RULES[made.name].batch(info, dims, *made.arguments(tensors))
        return (tuple(found), tuple(where)) if isinstance(found, list) else (found, where)


def _or_zeros(tangent: Any, like: Any) -> Any:
    shape, dtype, device = like
    return torch.zeros(shape, dtype=dtype, device=device) if tangent is None else tangent
