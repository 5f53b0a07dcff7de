"""The functions of `anydml.torch`, which call the registered operators under any transform."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from anydml.arrays.pytorch import MOVED, TorchAdapter, is_recorded
from anydml.operators.function import Function
from anydml.torch.transforms import call


def tensor_function(function: Function) -> Callable[..., Any]:
    """Return a function on tensors, with the stub's signature and docstring except for ``out``."""
    signature = inspect.signature(function.stub)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "out"]
    names = [parameter.name for parameter in function.parameters]
    positional = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    signature = signature.replace(parameters=parameters)

    @functools.wraps(function.stub)
    def on_tensors(*arguments: Any, **named: Any) -> Any:
        values = [*arguments]
        if named or len(values) > positional:
            # Raises Python's usual TypeError for arguments that do not fit.
            bound = signature.bind(*arguments, **named)
            bound.apply_defaults()
            values = [bound.arguments[name] for name in names]
        elif len(values) < len(names):
            if not function.parameters[len(values)].has_default:
                signature.bind(*arguments)
            values = function.bound(values)
        return _call(function, values)

    on_tensors.__signature__ = signature  # type: ignore[attr-defined]  # as `inspect` reads it
    on_tensors.__module__ = "anydml.torch"
    if on_tensors.__doc__:
        lines = on_tensors.__doc__.splitlines()
        on_tensors.__doc__ = "\n".join(line for line in lines if not line.strip().startswith("out: "))
    return on_tensors


def _is_list(value: Any) -> bool:
    return value is None or hasattr(value, "__iter__")


def _has_sections(function: Function) -> bool:
    """Whether a number of parts, which operators do not take, may be given instead of their sizes."""
    return function.parameters[1].name.endswith("_or_sections")


def _call(function: Function, values: list[Any]) -> Any:
    x = values[0]
    for k, parameter in enumerate(function.parameters):
        value = values[k]
        if parameter.kind in ("Array", "Indices", "Mask") and not isinstance(value, torch.Tensor) and k:
            values[k] = torch.as_tensor(value, device=x.device)
        elif parameter.kind.startswith("int | Ints") and not _has_sections(function) and not _is_list(value):
            values[k] = [value]
        elif parameter.kind == "HostInts | None" and not isinstance(value, torch.Tensor):
            values[k] = torch.as_tensor([] if value is None else value, device="cpu")
    if _has_sections(function) and isinstance(values[1], int):
        TorchAdapter(x).check_kind(function.label, function.parameters[0].name, (*MOVED, "meta"))
        # Under `torch.jit.trace` sizes are tensors, but fixed.
        shape = tuple(map(int, x.shape)) if is_recorded() else x.shape
        values[1:] = function.checked(function.label, [shape], tuple(values[1:]))
    results = call(function.name, *values)
    return tuple(results) if function.lengths is not None else results
