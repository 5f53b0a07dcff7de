"""Replacements for functions of NumPy and PyTorch that create arrays, since the originals ignore traced arrays."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from anydml.tracing.assignable_arrays import new_assignable_array
from anydml.tracing.constants import dtype_of, is_list
from anydml.tracing.numpy_table import call_numpy
from anydml.tracing.refusing import CONVERT_OUTSIDE, fuse_error, named_errors, refusal
from anydml.tracing.short_integers import pinned_number
from anydml.tracing.structure import leaves
from anydml.tracing.trace import Trace, TracedArray, with_needed_argument
from anydml.tracing.traced_tensor import TracedTensor

CONVERTERS = frozenset((np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require))
"""Functions that accept traced arrays, and lists of them, but do not call their `__array_function__`."""


def _convert(trace: Trace, function: Any, a: Any, *arguments: Any, **keywords: Any) -> Any:
    """Convert traced arrays, and lists that contain traced arrays; anything else is left to NumPy."""
    traced = [leaf for leaf in leaves(a) if isinstance(leaf, TracedArray)]
    if not traced or isinstance(traced[0], TracedTensor):
        return function(a, *arguments, **keywords)
    keywords.pop("like", None)
    return call_numpy(trace, function, (a, *arguments), keywords)


def _constant_array(
    trace: Trace,
    fill_value: Any,
    shape: Any,
    dtype: Any = float,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Any:
    return new_assignable_array(trace, shape, dtype, fill_value)


def _full_array(
    trace: Trace,
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Any:
    number_dtype = (
        fill_value.element if isinstance(fill_value, TracedArray) else np.asarray(pinned_number(fill_value)).dtype
    )
    return new_assignable_array(trace, shape, number_dtype if dtype is None else dtype, fill_value)


CREATORS: dict[Any, Callable[..., Any]] = {
    np.zeros: lambda trace, *arguments, **keywords: _constant_array(trace, None, *arguments, **keywords),
    np.empty: lambda trace, *arguments, **keywords: _constant_array(trace, None, *arguments, **keywords),
    np.ones: lambda trace, *arguments, **keywords: _constant_array(trace, 1, *arguments, **keywords),
    np.full: _full_array,
}
"""Functions that create arrays of a shape, which a traced function may assign into."""


def _torch_creator(trace: Trace, name: str) -> Any:
    import torch

    def make(*size: Any, dtype: Any = None, device: Any = None, **keywords: Any) -> Any:
        sizes, fill_value = (keywords.pop("size", size), {"ones": 1}.get(name))
        if name == "full":
            fill_value = keywords.pop("fill_value") if "fill_value" in keywords else sizes[1]
            sizes = sizes[0] if sizes is size else sizes
            dtype = torch.tensor(pinned_number(fill_value)).dtype if dtype is None else dtype
        elif sizes and is_list(sizes[0]):
            sizes = sizes[0]
        if any(keywords.values()):
            raise refusal(f"torch.{name} with {', '.join(keywords)}", "leave these arguments out")
        if device is not None and str(torch.device(device)) != str(trace.device):
            raise refusal(f"torch.{name} on {device}", f"the arguments are on {trace.device}")
        with named_errors(f"torch.{name}"):
            return new_assignable_array(
                trace, sizes, dtype_of(None, torch.get_default_dtype() if dtype is None else dtype), fill_value
            )

    return make


def _convert_to_tensor(trace: Trace, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
    """Convert a traced tensor by one of `_TORCH_CONVERTERS`; anything without traced arrays is left to PyTorch.

    Raises:
        FuseError: anything else has traced arrays, or the result would require gradients or be pinned.
    """
    named = {} if arguments else {name: keywords[name] for name in ("data", "obj") if name in keywords}
    data = next(iter((*arguments, *named.values())), None)
    traced = next((leaf for leaf in leaves(data) if isinstance(leaf, TracedArray)), None)
    name = f"torch.{function.__name__}"
    if traced is None:
        return function(*arguments, **keywords)
    if data is traced and isinstance(data, TracedTensor):
        if option := next((option for option in ("requires_grad", "pin_memory") if keywords.get(option)), None):
            raise fuse_error(f"{name} with {option}: leave it out, and call it on the fused function's result")
        # PyTorch checks the other arguments, and that it takes tensors.
        other = trace.kind.library_class()()
        function(*(arguments and (other, *arguments[1:])), **{**keywords, **dict.fromkeys(named, other)})
        options = {option: keywords[option] for option in ("dtype", "device") if keywords.get(option) is not None}
        with named_errors(name):
            result = data.to(**options) if options else data
            return result.clone() if function.__name__ == "tensor" or keywords.get("copy") else result
    hint = "call torch.stack" if trace.kind is TracedTensor else CONVERT_OUTSIDE
    raise with_needed_argument(fuse_error(f"{name} of {traced!r}, whose elements are not known: {hint}"), traced)


def _tensor_converter(trace: Trace, function: Any) -> Any:
    return trace.replacements.setdefault(function, partial(_convert_to_tensor, trace, function))


_TORCH_CONVERTERS = frozenset(("tensor", "as_tensor", "asarray", "from_numpy"))
"""Names of PyTorch's functions that read the elements of what they are given."""

CREATOR_NAMES = frozenset(function.__name__ for function in CREATORS)
REPLACED_FUNCTIONS = frozenset(function.__name__ for function in CONVERTERS) | CREATOR_NAMES | _TORCH_CONVERTERS


def creator_replacement(trace: Trace, value: Any, is_creating: bool) -> Any:
    """Return the replacement of NumPy, of PyTorch, or of a function of either; any other value is returned unchanged.

    Args:
        trace: the function's trace.
        value: a value that the function reads by a name.
        is_creating: whether arrays that the function creates are traced; False if it computes with them.
    """
    # Functions that an earlier trace has created may have its replacements.
    if value is np or (type(value) is _Numpy and value.is_over):
        return _Numpy(trace, is_creating)
    torch = sys.modules.get("torch")
    if torch is not None and (value is torch or (type(value) is _Torch and value.is_over)):
        return _Torch(trace, is_creating)
    if type(value) not in _FUNCTION_TYPES:
        return value
    if value.__name__ in _TORCH_CONVERTERS and value is getattr(torch, value.__name__, None):
        return _tensor_converter(trace, value)
    if value in CONVERTERS:
        return partial(_convert, trace, value)
    if is_creating and value in CREATORS and trace.kind is not TracedTensor:
        return partial(_with_named_errors, CREATORS[value], value.__name__, trace)
    return value


_FUNCTION_TYPES = (types.BuiltinFunctionType, types.FunctionType, type(np.asfortranarray))


def _with_named_errors(function: Callable[..., Any], name: str, trace: Trace, *arguments: Any, **keywords: Any) -> Any:
    with named_errors(f"numpy.{name}"):
        return function(trace, *arguments, **keywords)


class _Numpy(types.ModuleType):
    """NumPy, except for the functions that are overridden here."""

    def __init__(self, trace: Trace, is_creating: bool) -> None:
        super().__init__("numpy")
        self._settings = trace, is_creating

    @property
    def is_over(self) -> bool:
        return self._settings[0].is_over

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(np, name)
        trace, is_creating = self._settings
        # A function that the trace has created may be called later.
        is_replaced = name in REPLACED_FUNCTIONS and not self.is_over
        return creator_replacement(trace, attribute, is_creating) if is_replaced else attribute


class _Torch(types.ModuleType):
    """PyTorch, except for the functions that create tensors."""

    def __init__(self, trace: Trace, is_creating: bool) -> None:
        super().__init__("torch")
        self._trace, self._is_creating = trace, is_creating and trace.kind is TracedTensor

    @property
    def is_over(self) -> bool:
        return self._trace.is_over

    def __getattr__(self, name: str) -> Any:
        if name in CREATOR_NAMES and self._is_creating and not self.is_over:
            return _torch_creator(self._trace, name)
        attribute = getattr(sys.modules["torch"], name)
        if self.is_over:
            return attribute
        return _tensor_converter(self._trace, attribute) if name in _TORCH_CONVERTERS else attribute
