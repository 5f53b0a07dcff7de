"""Operations that create arrays of constants, and that view arrays as another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.arrays import received
from anydml.tracing import axes, integers, shaping
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray


def dtype_of(x: TracedArray, dtype: Any) -> np.dtype[Any]:
    """Convert a dtype of NumPy or PyTorch to NumPy's; None is the array's own."""
    if dtype is None:
        return x.element
    if not type(dtype).__module__.startswith("torch"):
        return np.dtype(dtype)  # type: ignore[no-any-return]
    import torch

    return received("dtype", torch.empty(0, dtype=dtype))[0].dtype  # type: ignore[no-any-return]


def filled(x: TracedArray, shape: Any = None, number: Any = None, dtype: Any = None) -> TracedArray:
    """Return an array filled with one number, by default of x's shape and dtype.

    Args:
        x: an array of the trace.
        shape: the result's shape, or its only size.
        number: a constant, or a traced scalar of the result's dtype; None is NumPy's zero.
        dtype: a dtype of NumPy or PyTorch.
    """
    sizes = x.shape if shape is None else tuple(integers.wholes(shape))
    found = dtype_of(x, dtype)
    if isinstance(number, TracedArray):
        if number.element != found:
            raise refused(f"{number!r} as {found}")
        return shaping.broadcast_to(number, sizes)
    return shaping.filled(x, sizes, found, number)


def like(x: TracedArray, dtype: Any = None, shape: Any = None, number: Any = None) -> TracedArray:
    """Like numpy.zeros_like, torch.ones_like and so on."""
    return filled(x, shape, number, dtype)


def full_like(x: TracedArray, fill_value: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """Like numpy.full_like; `fill_value` may be an array that broadcasts."""
    found = dtype_of(x, dtype)
    if fill_value is None:
        raise broken("fill_value is missing")
    if isinstance(fill_value, TracedArray):
        return filled(x, shape, fill_value, found)
    if np.ndim(fill_value):
        known = x.trace.array(np.asarray(fill_value).astype(found))
        return shaping.broadcast_to(known, x.shape if shape is None else shape)
    return filled(x, shape, np.full((), fill_value, found), found)


def full(x: TracedArray, size: Any, fill_value: Any, dtype: Any = None) -> TracedArray:
    """Like torch.full_like and torch.Tensor.new_full; a size of None is the tensor's own."""
    return filled(x, size, fill_value, dtype)


def new(x: TracedArray, size: Any, dtype: Any = None, number: Any = None) -> TracedArray:
    """Like torch.Tensor.new_zeros and so on."""
    return filled(x, size, number, dtype)


def fill(x: TracedArray, value: Any) -> TracedArray:
    """Like torch.fill."""
    return filled(x, None, value)


def retyped(x: TracedArray, dtype: Any) -> TracedArray:
    """View an array as another dtype of the same size.

    Raises:
        FuseError: the dtype has another size.
    """
    found = dtype_of(x, dtype)
    if found.itemsize != x.itemsize:
        raise broken(
            f"{x!r} viewed as {found}: a fused function cannot change the size of elements: pass a view of the argument"
        )
    return x.trace.made(x.value, found, x.like if found == x.element else None)


def to(x: TracedArray, given: Sequence[Any], dtype: Any = None, device: Any = None, other: Any = None) -> TracedArray:
    """Like torch.Tensor.to, for the tensor's own device and dtype."""
    for each in (*given, dtype, device, other):
        wanted = getattr(each, "dtype", each)
        kind = type(wanted).__name__
        if kind == "dtype" and wanted != x.dtype:
            raise refused(f"{x!r} as {wanted}")
        if (kind == "device" or isinstance(wanted, str)) and str(wanted) != str(x.trace.device):
            raise refused(f"{x!r} on {wanted}", "call the function with tensors on that device")
    return x


def as_dtype(x: TracedArray, name: str) -> TracedArray:
    """Like torch.Tensor.float and so on, for tensors that have this dtype already."""
    import torch

    return to(x, [getattr(torch, name)])


def contiguous(x: TracedArray, dtype: Any = None) -> TracedArray:
    """Like numpy.ascontiguousarray."""
    found = axes.raised(x, 1)
    return found if dtype is None else found.astype(dtype)


def viewed(x: TracedArray, shape: Sequence[Any]) -> TracedArray:
    """Like torch.Tensor.view: in another shape, or as another dtype of the same size."""
    if len(shape) == 1 and type(shape[0]).__name__ == "dtype":
        return retyped(x, shape[0])
    return axes.reshape(x, shape)
