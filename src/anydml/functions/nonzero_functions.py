"""`nonzero_coordinates` and `compress`: functions whose results have shapes that depend on elements."""

from __future__ import annotations

import math
from typing import Any

from numpy import ndarray

from anydml import functions
from anydml.arrays import read_argument
from anydml.arrays.native_arrays import is_native
from anydml.arrays.receive import check_place
from anydml.core import nonzero_search
from anydml.errors import BindingError, DescError
from anydml.functions.traced_calls import dispatch_package, fused_functions
from anydml.infer import axis_of
from anydml.memory.device_array import DeviceArray, as_tensor, is_cupy, is_tensor
from anydml.operators.function import Array


def compress(condition: Any, x: Array, axis: int | None = None) -> Array:
    """Select the elements, or the slices along an axis, where a condition holds: ``x[condition]``.

    The result's size depends on the condition, so there is no ``out``.

    Args:
        condition: array or list of bools or numbers; zero is false. Without an axis, it has x's shape, or one
            dimension and x's number of elements. With an axis, it has one dimension, of the axis' size; with axis 0, it
            may also have the sizes of several leading dimensions of x.
        x: array of any shape and dtype, of any library.
        axis: −rank to rank − 1; by default, elements are selected, in row-major order.

    Returns:
        A new contiguous array of x's library, as from ``numpy.compress``, ``x[condition]`` or ``torch.masked_select``.

    Raises:
        DescError: the axis is out of range, or the condition's sizes do not fit.
        BindingError: x has no memory that can be read, or the condition is of another library or on another device.
        FuseError: the condition is traced: shapes would depend on elements.

    Examples:
        >>> x = np.array([[1, 2, 3], [4, 5, 6]])
        >>> dml.compress(x > 2, x)
        array([3, 4, 5, 6])
        >>> dml.compress([True, False, True], x, axis=1)
        array([[1, 3],
               [4, 6]])
    """
    result: Array | None = None
    if nonzero_search is not None and (type(x) is ndarray or is_native(x)):
        result = nonzero_search.compress(condition, x, axis)
    return _general_compress(condition, x, axis) if result is None else result


def _general_compress(condition: Any, x: Any, axis: int | None) -> Any:
    """Compress arrays that compiled code does not handle: find the coordinates, then gather."""
    if (fused := fused_functions(x, condition)) is not None:
        return fused.compress(condition, x, axis)
    if is_tensor(x) and dispatch_package(x) is not None:
        import torch

        condition = torch.as_tensor(condition, device=x.device)
    else:
        x_array, x_adapter = read_argument("compress", x)
        condition_array, condition_adapter = read_argument("compress", condition, "condition")
        if condition_adapter is not None:
            check_place("compress", "condition", condition_adapter, x_adapter, "x")
        # Without an adapter, the argument may be a list.
        x = x if x_adapter else x_array
        condition = condition if condition_adapter else condition_array
    shape, selected = tuple(x.shape), tuple(condition.shape)
    first = 0 if axis is None else axis_of("compress", len(shape), axis)
    if axis is None:
        fits = selected in (shape, (math.prod(shape),))
    else:
        fits = 0 < len(selected) <= (1 if first else len(shape)) and selected == shape[first : first + len(selected)]
    if not fits:
        rule = "condition must have x's sizes from the axis on"
        if axis is None:
            shapes = " or ".join(map(str, dict.fromkeys((shape, (math.prod(shape),)))))
            rule = f"without an axis, condition must have shape {shapes}"
        where = "" if axis is None else f", and axis is {axis}"
        message = f"compress: condition has shape {selected}, but x has {shape}{where}"
        raise DescError(message, "compress", "condition", rule)
    if axis is None and len(selected) < 2:
        x, condition = x.reshape((-1,)), condition.reshape((-1,))
    places = nonzero_coordinates(condition)
    return functions.gather_nd(x, places) if len(selected) > 1 else functions.gather(x, places[:, 0], first)


def nonzero_coordinates(x: Any) -> Any:
    """Find the coordinates of all elements that are not zero, in row-major order, like `numpy.argwhere`.

    DML_OPERATOR_NONZERO_COORDINATES without its limits: the number of rows is its count, and no unused rows follow.
    Negative zero is zero, NaN is not. The number of rows depends on the elements, so there is no ``out``.

    Args:
        x: array of any shape and dtype, of any library.

    Returns:
        An INT64 array of x's library, with one row per element found and one column per dimension.

    Raises:
        BindingError: x has no memory that can be read.
        FuseError: x is traced: shapes would depend on elements.

    Examples:
        >>> dml.nonzero_coordinates(np.array([[0, 5], [7, 0]]))
        array([[0, 1],
               [1, 0]])
    """
    result = nonzero_search.nonzero(x) if nonzero_search is not None and (type(x) is ndarray or is_native(x)) else None
    return _general_coordinates(x) if result is None else result


def _general_coordinates(x: Any) -> Any:
    """Find the coordinates in arrays that compiled code does not handle."""
    if (fused := fused_functions(x)) is not None:
        return fused.nonzero_coordinates(x)
    if is_tensor(x) and dispatch_package(x) is not None:
        return x.nonzero()
    try:
        array, adapter = read_argument("nonzero_coordinates", x)
    except BindingError as refused:
        if is_tensor(x):
            return _by_torch(x, refused)
        raise
    if array.dtype.kind == "V" and is_tensor(x) and x.is_complex():
        # Of complex32, NumPy would see only the bytes, with signs of zeros.
        return x.nonzero().contiguous()
    if isinstance(array, DeviceArray):
        if is_cupy(array.owner):
            import cupy

            return cupy.argwhere(array.owner)
        return as_tensor(array.owner, array.gpu).nonzero().contiguous()
    from anydml.engines.cpu.nonzero import argwhere

    coordinates = argwhere(array)
    return coordinates if adapter is None else adapter.from_lengths(coordinates)


def _by_torch(x: Any, refused: BindingError) -> Any:
    """Have PyTorch search a tensor that requires grad or is inside a transform: coordinates have no gradients."""
    try:
        return x.nonzero().contiguous()
    except NotImplementedError:
        raise refused from None
