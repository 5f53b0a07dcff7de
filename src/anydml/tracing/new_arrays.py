"""Words that create arrays of constants, and that view or convert arrays as another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.tracing.array_verbs import astype, broadcast, fill, native
from anydml.tracing.assigning import array_of
from anydml.tracing.axes import at_least, reshape
from anydml.tracing.constants import dtype_of, trace_of
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.structure import leaves
from anydml.tracing.trace import TracedArray


def like(x: TracedArray, dtype: Any = None, shape: Any = None, fill_value: Any = None) -> TracedArray:
    """Return an array filled with a number, by default with zeros, of x's shape and dtype."""
    return fill(x, shape, fill_value, dtype)


def full_like(x: TracedArray, fill_value: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """Return an array filled with a value, which may be an array that broadcasts."""
    element = dtype_of(x, dtype)
    if fill_value is None:
        raise fuse_error("fill_value is missing")
    if isinstance(fill_value, TracedArray):
        return fill(x, shape, fill_value, element)
    if np.ndim(fill_value):
        return broadcast(x.trace.array(np.asarray(fill_value).astype(element)), x.shape if shape is None else shape)
    # NumPy's function wraps numbers that do not fit, which its assignments refuse.
    fill_scalar = fill_value if x.INDEXES_LIKE_TORCH else np.full((), fill_value, element)
    return fill(x, shape, fill_scalar, element)


def as_array(a: Any, dtype: Any = None, ndmin: int = 0, ndmax: int = 0) -> TracedArray:
    """Convert a traced array, or stack nested lists that contain traced arrays."""
    if ndmax:
        raise fuse_error(f"ndmax={ndmax}, which makes an array of objects")
    array = array_of(trace_of(leaves(a)), a)
    array = astype(array if isinstance(a, TracedArray) else native(array), dtype)
    return at_least(array, ndmin)


def view_as_dtype(x: TracedArray, dtype: Any) -> TracedArray:
    """View an array as another dtype of the same size.

    Raises:
        FuseError: the dtype has another size.
    """
    new_dtype = dtype_of(x, dtype)
    if new_dtype.itemsize != x.itemsize:
        message = "a fused function cannot change the size of elements: pass a view of the argument"
        raise fuse_error(f"{x!r} viewed as {new_dtype}: {message}")
    return x.trace.new_array(x.value, new_dtype, x.like if new_dtype == x.element else None)


def view(x: TracedArray, shape: Sequence[Any]) -> TracedArray:
    """View a tensor in another shape, or as another dtype of the same size."""
    is_dtype = len(shape) == 1 and type(shape[0]).__name__ == "dtype"
    return view_as_dtype(x, shape[0]) if is_dtype else reshape(x, shape)


def to(
    x: TracedArray, positional: Sequence[Any], dtype: Any = None, device: Any = None, other: Any = None
) -> TracedArray:
    """Return the tensor, which must have this dtype and device already."""
    for argument in (*positional, dtype, device, other):
        if type(argument) is int:
            raise refusal(f"{x!r} on device {argument}", "call the function with tensors on that device")
        target = getattr(argument, "dtype", argument)
        class_name = type(target).__name__
        if class_name == "dtype" and target != x.dtype:
            raise refusal(f"conversion of {x!r} to {target}")
        if (class_name == "device" or isinstance(target, str)) and str(target) != str(x.trace.device):
            raise refusal(f"{x!r} on {target}", "call the function with tensors on that device")
    tensor_class = x.library_class()
    # PyTorch checks the types of the arguments.
    tensor = tensor_class().to(dtype=x.dtype)
    if tensor.to(*[tensor if isinstance(value, TracedArray) else value for value in positional]).dtype != x.dtype:
        raise refusal(f"conversion of {x!r} to another dtype")
    return x


def as_dtype(x: TracedArray, name: str) -> TracedArray:
    """Return the tensor, which must have this dtype already."""
    import torch

    return to(x, [getattr(torch, {"byte": "uint8", "char": "int8"}.get(name, name))])
