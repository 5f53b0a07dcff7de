"""`nonzero_coordinates`: where elements are not zero. How many there are is data, so that libraries find them."""

from __future__ import annotations

from typing import Any

from anydml.arrays import received
from anydml.functions.traced import fused_functions
from anydml.memory.device_array import DeviceArray, as_tensor, is_cupy, is_tensor


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
    if (functions := fused_functions(x)) is not None:
        return functions.nonzero_coordinates(x)
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
