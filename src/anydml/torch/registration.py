"""Registration of the operators: schemas and kernels, derived from their functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch._library.autograd import make_autograd_impl
from torch.compiler import is_dynamo_compiling

from anydml import functions
from anydml.arrays.native_arrays import is_native
from anydml.arrays.pytorch import TorchAdapter
from anydml.core import native
from anydml.functions.argument_conversion import host_integers
from anydml.functions.public_functions import public_function
from anydml.operators.function import Function, Parameter
from anydml.operators.registry import FUNCTIONS
from anydml.torch.tangents import KEYS, with_tangents
from anydml.torch.window_scatter import LAY_INTO_ZEROS

REGISTERED: dict[str, Function] = {**FUNCTIONS, LAY_INTO_ZEROS.name: LAY_INTO_ZEROS}
"""The functions that are registered as operators, by name."""

_TYPES = {
    "Array": "Tensor",
    "Arrays": "Tensor[]",
    "Indices": "Tensor",
    "Mask": "Tensor",
    "HostInts | None": "Tensor",
    "Ints": "SymInt[]",
    "int | Ints": "SymInt[]",
    "Ints | None": "SymInt[]?",
    "int | Ints | None": "SymInt[]?",
    "int": "int",
    "int | None": "int?",
    "Scalar": "Scalar",
    "Literal": "str",
}
_FIXED = ("axis", "batch_dims")
"""Integers that select dimensions: a compiled program is specialized to them, but not to sizes and diagonals."""

_RETURNS = {"Array": "Tensor", "list[Array]": "Tensor[]", "tuple[Array, HostInts]": "(Tensor, Tensor)"}


def schema(function: Function) -> str:
    """Return an operator's schema, in PyTorch's notation."""
    parameters = ", ".join(map(_argument, function.parameters))
    return f"({parameters}) -> {_RETURNS[function.stub.__annotations__['return']]}"


def _argument(parameter: Parameter) -> str:
    # The operator takes sizes only; a number of sections is expanded before the call.
    name = parameter.name.removesuffix("_or_sections")
    type_name = "SymInt" if parameter.kind == "int" and name not in _FIXED else _TYPES[parameter.kind]
    text = f"{type_name} {name}"
    if not parameter.has_default:
        return text
    default = parameter.default
    return f'{text}="{default}"' if isinstance(default, str) else f"{text}={default}"


def kernel(function: Function) -> Callable[..., Any]:
    """Return the kernel of an operator, for tensors with memory."""
    is_torch_only, count = function.name not in FUNCTIONS, function.stub.__code__.co_argcount
    run = public_function(function) if is_torch_only else getattr(functions, function.name)

    def move(*arguments: Any) -> Any:
        values = function.with_defaults(arguments)
        x = values[0]
        for k, (parameter, value) in enumerate(zip(function.parameters, values, strict=True)):
            if parameter.kind == "Arrays":
                values[k] = [_real(item) for item in value]
            elif parameter.is_array:
                values[k] = _real(value)
        named = {
            parameter.name: value for parameter, value in zip(function.parameters[count:], values[count:], strict=True)
        }
        values = values[:count]
        if function.has_parts and not x.is_cpu:
            named["out"] = _parts(function, x, values[1:])
        return run(*values, **named)

    return move


def _real(tensor: Any) -> Any:
    plain = tensor.detach() if tensor.requires_grad else tensor
    # Wrapped, because given a tensor the functions would call the operators again while PyTorch compiles.
    return TorchAdapter(plain) if torch.compiler.is_compiling() else plain


def _parts(function: Function, x: Any, arguments: list[Any]) -> list[Any]:
    # Results of PyTorch operators must not share memory, but the GPU engine allocates parts in one buffer.
    for k, parameter in enumerate(function.parameters[1:]):
        if parameter.kind == "HostInts | None":
            arguments[k] = host_integers(function.name, parameter.name, arguments[k])
    inferred = function.infer(function.name, [tuple(x.shape)], tuple(arguments))
    return [x.new_empty(shape) for shape in inferred.shapes]


OPERATORS = {
    name: torch.library.custom_op(f"anydml::{name}", kernel(function), mutates_args=(), schema=schema(function))
    for name, function in REGISTERED.items()
}
"""The registered operators, by name."""

_LIBRARY = torch.library.Library("anydml", "IMPL")


def register_fast_path(function: Function) -> None:
    """Register forward-mode tangents, and a fast path for calls that no autograd, tracer or mode observes.

    The fast path runs the compiled core, and is tried in two places: by ``torch.ops.anydml.<name>`` before it enters
    the dispatcher, and in the autograd kernel, since the way from there to the kernel takes ten times as long. Calls
    that it does not handle take PyTorch's usual route.
    """
    registered = OPERATORS[function.name]
    general = with_tangents(function, make_autograd_impl(registered._opoverload, registered))
    compiled = native(function.name)
    on_cpu, *other_keys = KEYS
    for key in other_keys:
        _LIBRARY.impl(function.name, general, key, with_keyset=True)
    if compiled is None:
        _LIBRARY.impl(function.name, general, on_cpu, with_keyset=True)
        return
    indices = [k for k, parameter in enumerate(function.parameters) if k and _TYPES[parameter.kind] == "Tensor"]
    defaults, is_of_lists = tuple(parameter.default for parameter in function.parameters), function.is_of_lists

    def peek(arguments: tuple[Any, ...]) -> Any:
        """Return the compiled core's results; None if the core does not handle the call: under a mode, for example."""
        count = len(arguments)
        if not 0 < count <= len(defaults):
            return None
        x = arguments[0]
        if is_of_lists:
            x = x[0] if type(x) in (list, tuple) and x else None
        if not is_native(x):
            return None
        # PyTorch refuses NumPy arrays and lists with its own errors.
        if indices and any(type(arguments[k]) in (np.ndarray, list) for k in indices if k < count):
            return None
        return compiled(*arguments, *defaults[count:], None)

    def quick(keys: Any, *arguments: Any) -> Any:
        result = peek(arguments)
        return general(keys, *arguments) if result is None else result

    _LIBRARY.impl(function.name, quick, on_cpu, with_keyset=True)
    functions_modes = getattr(torch._C, "_len_torch_function_stack", None)
    packet, overload = getattr(torch.ops.anydml, function.name), registered._opoverload
    dispatched = getattr(packet, "_op", None)
    if functions_modes is None or dispatched is None:
        return
    is_profiled = torch._C._autograd._profiler_enabled

    def call_operator(*arguments: Any, **named: Any) -> Any:
        if is_dynamo_compiling():
            # The compiler cannot trace the code below, but knows the operator.
            return overload(*arguments, **named)
        if not (named or is_profiled() or functions_modes()):
            result = peek(arguments)
            if result is not None:
                return result
        return dispatched(*arguments, **named)

    packet._op = call_operator
    # TorchScript identifies an operator by its packet's `_op`.
    torch.jit._builtins._register_builtin(call_operator, f"anydml::{function.name}")
