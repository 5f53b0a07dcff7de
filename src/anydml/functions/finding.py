"""`nonzero_coordinates` and `compress`: the shapes of their results depend on elements."""

from __future__ import annotations

import math
from typing import Any

from numpy import ndarray

from anydml import functions
from anydml.arrays import received
from anydml.arrays.quick import is_native
from anydml.arrays.receive import check_place
from anydml.core import finding
from anydml.errors import DescError
from anydml.functions.traced import fused_functions, registered_for
from anydml.infer import axis_of
from anydml.memory.device_array import DeviceArray, as_tensor, is_cupy, is_tensor


def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """Select the elements, or the slices along an axis, where a condition holds: ``x[condition]``.

    The result's size depends on the condition, so there is no ``out``.

    Args:
        condition: array or list of bools or numbers, which hold if they are not zero. Without an axis, of x's shape or
            of one dimension and x's number of elements; with an axis, of the sizes of x from that axis on: with axis
            0, a condition of several dimensions selects by the first dimensions of x.
        x: array of any shape and dtype, of any library.
        axis: −rank to rank − 1; by default, elements are selected, in row-major order. Only with axis 0 the condition
            may have more than one dimension.

    Returns:
        A new contiguous array of x's library: ``numpy.compress``, ``x[condition]`` of NumPy, `torch.masked_select`.

    Raises:
        DescError: the axis is out of range, or the condition's sizes do not fit.
        BindingError: x has no memory that could be read, or the condition is another library's or on another device.
        FuseError: the condition is traced: shapes would depend on elements.

    Examples:
        >>> x = np.array([[1, 2, 3], [4, 5, 6]])
        >>> dml.compress(x > 2, x)
        array([3, 4, 5, 6])
        >>> dml.compress([True, False, True], x, axis=1)
        array([[1, 3],
               [4, 6]])
    """
    if finding is not None and (type(x) is ndarray or is_native(x)):
        found = finding.compress(condition, x, axis)
        if found is not None:
            return found
    return _compressed(condition, x, axis)


def _compressed(condition: Any, x: Any, axis: int | None) -> Any:
    """The same where compiled code does not do it: indices are found, then gathered."""
    if (fused := fused_functions(x, condition)) is not None:
        return fused.compress(condition, x, axis)
    if is_tensor(x) and registered_for(x) is not None:
        import torch

        condition = torch.as_tensor(condition, device=x.device)
    else:
        (seen, adapter), (flags, other) = received("compress", x), received("compress", condition, "condition")
        if other is not None:
            check_place("compress", "condition", other, adapter, "x")
        x, condition = (x if adapter else seen), (condition if other else flags)
    shape, wanted = tuple(x.shape), tuple(condition.shape)
    first = 0 if axis is None else axis_of("compress", len(shape), axis)
    if axis is None:
        fits = wanted in (shape, (math.prod(shape),))
    else:
        fits = 0 < len(wanted) <= (1 if first else len(shape)) and wanted == shape[first : first + len(wanted)]
    if not fits:
        message = f"compress: condition has shape {wanted}, but x has {shape}, and axis is {axis}"
        raise DescError(message, "compress", "condition", "condition must have x's sizes from the axis on")
    if axis is None and len(wanted) < 2:
        x, condition = x.reshape((-1,)), condition.reshape((-1,))
    places = nonzero_coordinates(condition)
    return functions.gather_nd(x, places) if len(wanted) > 1 else functions.gather(x, places[:, 0], first)


def nonzero_coordinates(x: Any) -> Any:
    """The coordinates of all elements that are not zero, a row each, in row-major order, as `numpy.argwhere`.

    DML_OPERATOR_NONZERO_COORDINATES without its limits: its count is the number of rows, and there are no others. A
    negative zero is zero, NaN is not. How many rows there are depends on elements, so there is no ``out``.

    Args:
        x: array of any shape and dtype, of any library.

    Returns:
        An INT64 array of x's library, of one row an element found and one column a dimension.

    Raises:
        BindingError: x has no memory that could be read.
        FuseError: x is traced: shapes would depend on elements.

    Examples:
        >>> dml.nonzero_coordinates(np.array([[0, 5], [7, 0]]))
        array([[0, 1],
               [1, 0]])
    """
    if (fused := fused_functions(x)) is not None:
        return fused.nonzero_coordinates(x)
    if is_tensor(x) and not _repeats(x):
        try:
            return x.nonzero()
        except NotImplementedError:
            # Says what is wrong with a tensor without elements that could be read.
            received("nonzero_coordinates", x)
            raise
    array, adapter = received("nonzero_coordinates", x)
    if isinstance(array, DeviceArray):
        return _on_device(array.owner, array.gpu)
    from anydml.engines.cpu.nonzero import argwhere

    found = argwhere(array)
    return found if adapter is None else adapter.give_lengths(found)


def _repeats(x: Any) -> bool:
    """Whether strides of a tensor in host memory repeat elements, perhaps more often than anybody waits for."""
    return x.device.type == "cpu" and str(x.layout) == "torch.strided" and 0 in x.stride()


def _on_device(owner: Any, gpu: int) -> Any:
    if is_cupy(owner):
        import cupy

        return cupy.argwhere(owner)
    return as_tensor(owner, gpu).nonzero()
