"""The functions of `anydml.torch`, which call the registered operators under any transform."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from anydml.arrays.pytorch import MOVABLE_DEVICES, TorchAdapter, is_recorded
from anydml.errors import AnydmlError
from anydml.fields import UNORDERED, type_error
from anydml.functions.argument_conversion import convert_argument
from anydml.operators.function import Function, Parameter
from anydml.torch.transforms import call


def tensor_function(function: Function) -> Callable[..., Any]:
    """Return a function on tensors, with the stub's signature and docstring except for ``out``."""
    signature = inspect.signature(function.stub)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "out"]
    names = [parameter.name for parameter in function.parameters]
    positional = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    signature = signature.replace(parameters=parameters)

    def bind(*arguments: Any, **named: Any) -> inspect.BoundArguments:
        try:
            return signature.bind(*arguments, **named)
        except TypeError as error:
            # Python's message lacks the function.
            advice = ": assign the result to it, by copy_" if "out" in named else ""
            raise TypeError(f"{function.name} of anydml.torch: {error}{advice}") from None

    @functools.wraps(function.stub)
    def on_tensors(*arguments: Any, **named: Any) -> Any:
        values = [*arguments]
        if named or len(values) > positional:
            bound = bind(*arguments, **named)
            bound.apply_defaults()
            values = [bound.arguments[name] for name in names]
        elif len(values) < len(names):
            if not function.parameters[len(values)].has_default:
                bind(*arguments)
            values = function.with_defaults(values)
        try:
            return _call(function, values)
        except (AttributeError, TypeError, RuntimeError) as error:
            if not isinstance(error, AnydmlError):
                bound = bind(*arguments, **named)
                bound.apply_defaults()
                _check_types(function, [bound.arguments[name] for name in names])
            raise

    on_tensors.__signature__ = signature  # type: ignore[attr-defined]  # as `inspect` reads it
    on_tensors.__module__ = "anydml.torch"
    if on_tensors.__doc__:
        lines = on_tensors.__doc__.splitlines()
        on_tensors.__doc__ = "\n".join(line for line in lines if not line.strip().startswith("out: "))
    return on_tensors


_INTEGERS = int, np.integer, torch.SymInt
"""Types that are not lists. PyTorch's compiler, for which some are symbolic, cannot trace a search for `__iter__`."""


def _is_no_integer(value: Any) -> bool:
    is_integer = isinstance(value, _INTEGERS) or "int" in str(getattr(value, "dtype", "int"))
    return type(value) is bool or not is_integer


def _has_no_integer(value: Any) -> bool:
    return (
        isinstance(value, UNORDERED)
        or _is_no_integer(value)
        or (type(value) in (list, tuple) and any(map(_is_no_integer, value)))
    )


def _is_list(value: Any) -> bool:
    return value is None or hasattr(value, "__iter__")


def _has_sections(function: Function) -> bool:
    """Whether a function accepts a number of parts, which its operator does not, instead of their sizes."""
    return any(parameter.name.endswith("_or_sections") for parameter in function.parameters[1:2])


def _check_types(function: Function, values: list[Any]) -> None:
    """Check the types of arguments that PyTorch rejected, whose own message has several lines.

    Raises:
        DescError: an argument has another type.
        BindingError: an argument is a nested tensor, for which PyTorch calls no operator.
    """
    for k, (parameter, value) in enumerate(zip(function.parameters, values, strict=True)):
        tensors = value if parameter.kind == "Arrays" and isinstance(value, (list, tuple)) else [value]
        for tensor_number, tensor in enumerate(tensors):
            if isinstance(tensor, torch.Tensor) and tensor.is_nested:
                field = parameter.name if tensor is value else f"{parameter.name}[{tensor_number}]"
                TorchAdapter(tensor).check_kind(function.name, field)
        requirement = _requirement(parameter, value, is_first=not k)
        if requirement is not None:
            raise type_error(function.name, parameter.name, value, requirement) from None
        if parameter.kind.startswith(("int", "Ints", "Literal")):
            convert_argument(function.name, parameter, value, None)


def _requirement(parameter: Parameter, value: Any, is_first: bool) -> str | None:
    """Return the requirement that an argument does not meet; None if the argument may fit."""
    is_tensor, convert = isinstance(value, torch.Tensor), "pass torch.as_tensor of"
    if parameter.kind == "Arrays":
        if not is_tensor and not isinstance(value, UNORDERED) and _is_list(value) and value is not None:
            are_tensors = all(isinstance(item, torch.Tensor) for item in value)
            return None if are_tensors else f"a list of PyTorch tensors: {convert} each item"
        return "a list of PyTorch tensors: pass [x], or x.unbind() for its slices" if is_tensor else "a list of tensors"
    if parameter.is_array and not is_tensor:
        if is_first:
            return f"a PyTorch tensor: {convert} it"
        return None if _is_numeric(value) else "a PyTorch tensor, or a list of numbers"
    if parameter.kind == "Scalar" and not isinstance(value, numbers.Number):
        return f"a number{': pass its item()' if is_tensor else ''}"
    if (
        "Ints" in parameter.kind
        and parameter.kind != "HostInts | None"
        and isinstance(value, np.ndarray | torch.Tensor)
    ):
        return "a list of integers: pass its tolist()"
    return None


def _is_numeric(value: Any) -> bool:
    """Whether PyTorch makes a tensor of a value."""
    try:
        torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def _call(function: Function, values: list[Any]) -> Any:
    x = values[0]
    for k, parameter in enumerate(function.parameters):
        value = values[k]
        if parameter.kind.startswith(("int", "Ints")) and _has_no_integer(value):
            # PyTorch's operators take bools for 0 and 1, and cut off fractions of tensors.
            convert_argument(function.name, parameter, value, None)
        elif parameter.kind == "Arrays" and isinstance(value, UNORDERED):
            raise type_error(function.name, parameter.name, value, "a list of tensors")
        elif parameter.kind in ("Array", "Indices", "Mask") and not isinstance(value, torch.Tensor) and k:
            values[k] = torch.as_tensor(value, device=x.device)
        elif parameter.kind.startswith("int | Ints") and not _has_sections(function) and isinstance(value, _INTEGERS):
            values[k] = [value]
        elif parameter.kind == "HostInts | None" and not isinstance(value, torch.Tensor):
            values[k] = torch.as_tensor([] if value is None else value, device="cpu")
    if _has_sections(function) and isinstance(values[1], int):
        TorchAdapter(x).check_kind(function.name, function.parameters[0].name, (*MOVABLE_DEVICES, "meta"))
        # Under `torch.jit.trace` sizes are tensors, but fixed.
        shape = tuple(map(int, x.shape)) if is_recorded() else x.shape
        values[1:] = function.check(function.name, [shape], tuple(values[1:]))
    results = call(function.name, *values)
    return tuple(results) if function.lengths is not None else results
