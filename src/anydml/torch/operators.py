"""What each operator does to tensors that have memory, its schema and its fake kernel: derived from its function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from anydml import functions
from anydml.arrays.pytorch import TorchAdapter
from anydml.functions.arguments import all_parts
from anydml.functions.derived import derived, peeking
from anydml.functions.operations import OPERATIONS, Operation, operation
from anydml.operators.function import Function, Parameter
from anydml.operators.registry import FUNCTIONS
from anydml.torch.laying import LAY_INTO_ZEROS

EVERY: dict[str, Function] = {**FUNCTIONS, LAY_INTO_ZEROS.name: LAY_INTO_ZEROS}
"""What is registered, by name."""

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
    "OutOfRange": "str",
}
_RETURNS = {"Array": "Tensor", "list[Array]": "Tensor[]", "tuple[Array, HostInts]": "(Tensor, Tensor)"}


def schema(function: Function) -> str:
    """What PyTorch is told of an operator's arguments and results."""
    given = ", ".join(map(_argument, function.parameters))
    return f"({given}) -> {_RETURNS[function.stub.__annotations__['return']]}"


def _argument(parameter: Parameter) -> str:
    # A number of sections has become their sizes by then.
    name = parameter.name.removesuffix("_or_sections")
    text = f"{_TYPES[parameter.kind]} {name}"
    if not parameter.has_default:
        return text
    default = parameter.default
    return f'{text}="{default}"' if isinstance(default, str) else f"{text}={default}"


@cache
def _operation(function: Function) -> Operation:
    return OPERATIONS.get(function.name) or operation(function)


def kernel(function: Function) -> Callable[..., Any]:
    """What moves the memory of tensors."""
    own = function.name not in FUNCTIONS
    run = derived(function, _operation(function)) if own else getattr(functions, function.name)

    def move(*arguments: Any) -> Any:
        given = function.bound(arguments)
        named = {}
        x = given[0]
        for k, (parameter, value) in enumerate(zip(function.parameters, given, strict=True)):
            if parameter.kind == "Arrays":
                given[k] = [_real(each) for each in value]
            elif parameter.is_array:
                given[k] = _real(value)
            elif parameter.kind == "OutOfRange":
                named[parameter.name] = value
        given = [value for value, each in zip(given, function.parameters, strict=True) if each.name not in named]
        if function.has_parts and not x.is_cpu:
            named["out"] = _parts(function, x, given[1:])
        return run(*given, **named)

    return move


def _real(tensor: Any) -> Any:
    if not tensor.requires_grad and not torch.compiler.is_compiling():
        return tensor
    # Not the tensor itself: while PyTorch compiles, the functions would call the operators again.
    return TorchAdapter(tensor.detach() if tensor.requires_grad else tensor)


def _parts(function: Function, x: Any, rest: list[Any]) -> list[Any]:
    # Results of PyTorch's operators share no memory; the parts that the GPU engine makes would.
    for k, parameter in enumerate(function.parameters[1:]):
        if parameter.kind == "HostInts | None":
            rest[k] = all_parts(function.label, parameter.name, rest[k])
    inferred = function.infer(function.label, [tuple(x.shape)], tuple(rest))
    return [x.new_empty(shape) for shape in inferred.shapes]


OPERATORS = {
    name: torch.library.custom_op(f"anydml::{name}", kernel(function), mutates_args=(), schema=schema(function))
    for name, function in EVERY.items()
}
"""The registered operators, by name."""

_LIBRARY = torch.library.Library("anydml", "IMPL")


def quicken(function: Function) -> None:
    """Have calls that neither record nor are recorded done before PyTorch looks for who does them.

    Python's calls of ``torch.ops.anydml`` are, before they become PyTorch's; and those that are, before it goes its own
    way from autograd to a kernel, which takes ten times as long. All else goes that way.
    """
    of_name = f"anydml::{function.name}"
    peek, whole = peeking(function, _operation(function)), peeking(function, _operation(function), is_whole=True)
    # What `torch.library.get_kernel` calls; versions without it go PyTorch's own way.
    computed = getattr(torch._C, "_dispatch_get_computed_kernel_for_dispatch_key", None)
    if peek is None or whole is None or computed is None:
        return
    general = computed(of_name, "AutogradCPU").call_boxed
    modes, is_compiling = torch._C._len_torch_dispatch_stack, torch.compiler.is_compiling
    is_profiled, recorder = torch._C._autograd._profiler_enabled, torch._C._get_tracing_state

    def quick(keys: Any, *arguments: Any) -> Any:
        if not modes() and not is_compiling():
            found = peek(*arguments)
            if found is not None:
                return found
        return general(keys, *arguments)

    _LIBRARY.impl(function.name, quick, "AutogradCPU", with_keyset=True)
    functions_modes = getattr(torch._C, "_len_torch_function_stack", None)
    packet = getattr(torch.ops.anydml, function.name)
    dispatched = getattr(packet, "_op", None)
    if functions_modes is None or dispatched is None:
        return

    def called(*arguments: Any, **named: Any) -> Any:
        if not (named or is_profiled()):
            found = whole(*arguments)
            if found is None and not (modes() or functions_modes() or is_compiling() or recorder() is not None):
                found = peek(*arguments)
            if found is not None:
                return found
        return dispatched(*arguments, **named)

    packet._op = called
    # TorchScript knows an operator by what its packet calls.
    torch.jit._builtins._register_builtin(called, of_name)
