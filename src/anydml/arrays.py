"""Arguments of the functions: axes, sizes, indices and `out`, brought to one form or refused with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.backends.device_array import DeviceArray, as_array
from anydml.binding import check_output, check_overlap
from anydml.errors import BindingError, DescError
from anydml.fields import integer, integers
from anydml.interop import Guest, host_values, received_indices, target_array

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

_INDEX_DTYPES = frozenset(map(np.dtype, ("int32", "int64", "uint32", "uint64")))

_INPUTS = {"slice": ("x",), "copy": ("x",), "slice1": ("x",), "gather": ("x", "indices")}
"""What functions call their inputs, where it is not ``arrays[i]``."""


def is_movable(dtype: np.dtype[Any]) -> bool:
    """Whether elements are plain bytes; objects and variable-length strings are references that NumPy must count."""
    return not dtype.hasobject and dtype.kind != "T"


def joined_dtype(arrays: Sequence[Array]) -> np.dtype[Any] | None:
    """The dtype that holds all arrays: their one dtype, or the longest of their strings'; None where they differ."""
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) > 1 and {dtype.kind for dtype in dtypes} not in ({"U"}, {"S"}):
        return None
    return dtypes.pop() if len(dtypes) == 1 else np.result_type(*dtypes)


def moved_positions(x: Array) -> Array:
    """Each element's place in ``x.reshape(-1)``: what is moved instead of elements that are not plain bytes."""
    return np.arange(x.size).reshape(x.shape)


def normalize_axis(name: str, x: Array, axis: int) -> int:
    """An axis from 0 to rank − 1.

    Raises:
        DescError: it is no integer, or outside −rank … rank − 1.
    """
    if type(axis) is not int:
        axis = integer(name, "axis", axis)
    if not -x.ndim <= axis < x.ndim:
        message = f"{name}: axis is {axis}, but the array has {x.ndim} dimensions"
        raise DescError(message, name, "axis", f"axis is {-x.ndim} to {x.ndim - 1}" if x.ndim else "at least one axis")
    return axis % x.ndim


def vector(name: str, field: str, values: Sequence[int], rank: int) -> Sizes:
    """One integer a dimension.

    Raises:
        DescError: they are no integers, or more or fewer.
    """
    result = integers(name, field, values)
    if len(result) != rank:
        message = f"{name}: {field} has {len(result)} entries, but x has {rank} dimensions"
        raise DescError(message, name, field, "one entry a dimension")
    return result


def part_sizes(
    name: str, sizes_or_sections: int | Sequence[int], whole: int, axis: int, field: str = "sizes_or_sections"
) -> Sizes:
    """The parts' sizes along an axis of size `whole`.

    Raises:
        DescError: they are no integers, do not add up, or one is negative, or the axis does not divide.
    """
    if isinstance(sizes_or_sections, (int, np.integer)):
        return _equal_parts(name, int(sizes_or_sections), whole, axis, field)
    sizes = integers(name, field, sizes_or_sections)
    if not sizes:
        raise DescError(f"{name}: {field} is empty: there are no parts", name, field, "at least one part")
    if min(sizes) < 0:
        message = f"{name}: {field} has the sizes {_some(sizes)}, with a negative entry"
        raise DescError(message, name, field, "a part has 0 or more elements along axis")
    if sum(sizes) != whole:
        added = f"{field} has the sizes {_some(sizes)}, which add up to {sum(sizes)}"
        message = f"{name}: {added}, but axis {axis} has size {whole}"
        raise DescError(message, name, field, "the parts' sizes add up to the axis")
    return sizes


def split_sizes(name: str, split: Any, num_outputs: int | None, whole: int, axis: int) -> Sizes:
    """The parts' sizes that SplitTraining's second input stands for.

    Raises:
        DescError: it is not a 1-D list of integers, does not add up, or is not as long as there are outputs.
    """
    values = split if type(split) is np.ndarray else host_values(name, "split", [] if split is None else split)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        message = f"{name}: split is {values.dtype} of shape {values.shape}"
        raise DescError(message, name, "split", "split is a 1-D array of integers")
    count = None if num_outputs is None else integer(name, "num_outputs", num_outputs)
    if not values.size:
        if count is None:
            message = f"{name}: split is empty and num_outputs is not given"
            raise DescError(message, name, "num_outputs", "an empty split makes num_outputs equal parts")
        return _equal_parts(name, count, whole, axis, "num_outputs")
    if count not in (None, values.size):
        message = f"{name}: split has {values.size} entries, but num_outputs is {count}"
        raise DescError(message, name, "num_outputs", "split has one entry an output")
    return part_sizes(name, values.tolist(), whole, axis, "split")


def _equal_parts(name: str, count: int, whole: int, axis: int, field: str) -> Sizes:
    if count < 1 or whole % count:
        size = f"axis {axis} has size {whole}, which does not divide into {count} equal parts"
        message = f"{name}: {field} is {count}, but {size}"
        raise DescError(message, name, field, "equal parts divide the axis")
    return (whole // count,) * count


def _some(values: Sizes) -> str:
    return str(list(values)) if len(values) <= 16 else f"[{', '.join(map(str, values[:16]))}, … {len(values)} in all]"


def index_array(name: str, indices: Any, x: Array, guest: Guest | None) -> Array:
    """Indices as INT32, INT64, UINT32 or UINT64 in native byte order, on x's device; other integers become INT64.

    Raises:
        BindingError: they are of another library or device than x, and not of NumPy.
        DescError: they are not integers.
    """
    if guest is None and type(indices) is np.ndarray:
        return indices if indices.dtype in _INDEX_DTYPES else _index_array(name, indices, indices)
    array = _index_array(name, indices, received_indices(name, indices, guest))
    if guest is not None and isinstance(x, DeviceArray) and not isinstance(array, DeviceArray):
        return as_array(guest.upload(array))
    return array


def _index_array(name: str, indices: Any, array: Array) -> Array:
    if array.dtype in _INDEX_DTYPES:
        return array
    empty_list = not array.size and not isinstance(indices, np.ndarray)
    if array.dtype.kind not in "iu" and not empty_list:
        message = f"{name}: indices are {array.dtype}"
        raise DescError(message, name, "indices", "indices are integers")
    if isinstance(array, DeviceArray):
        from anydml.backends.cuda.memory import integers

        return as_array(integers(array))
    return array.astype(array.dtype.newbyteorder("=") if array.dtype.itemsize >= 4 and not empty_list else np.int64)


def strides_key(result: Array, out: Array | None) -> Sizes | None:
    """What a program must know of its output: nothing where we allocated it."""
    return None if out is None else result.strides


def output_array(
    name: str, out: Any | None, shape: Sizes, dtype: np.dtype[Any], inputs: Sequence[Array], guest: Guest | None = None
) -> Array:
    """A new array that the inputs' `guest` can give, or `out`, checked.

    Raises:
        BindingError: `out` is no writeable array of the inputs' kind and this shape and dtype, or overlaps an input.
    """
    if out is None:
        return np.empty(shape, dtype) if guest is None else guest.empty(name, shape, dtype)
    target = _checked_out(name, "out", out, shape, dtype, guest)
    names = _INPUTS.get(name) or [f"arrays[{i}]" for i in range(len(inputs))]
    check_overlap(name, [*names, "out"], [*inputs, target], first_output=len(inputs))
    return target


def output_arrays(
    name: str, out: Sequence[Any] | None, shapes: Sequence[Sizes], dtype: np.dtype[Any], x: Array,
    guest: Guest | None = None,
) -> list[Array]:  # fmt: skip
    """New arrays that x's `guest` can give, or `out`'s, checked.

    Raises:
        BindingError: there are more or fewer than parts, or one does not fit, or overlaps x or another.
    """
    if out is None:
        return [np.empty(shape, dtype) if guest is None else guest.empty(name, shape, dtype) for shape in shapes]
    if len(out) != len(shapes):
        message = f"{name}: out has {len(out)} arrays, but there are {len(shapes)} parts"
        raise BindingError(message, name, "out", "one array a part")
    names = [f"out[{i}]" for i in range(len(out))]
    targets = [
        _checked_out(name, field, array, shape, dtype, guest)
        for field, array, shape in zip(names, out, shapes, strict=True)
    ]
    check_overlap(name, ["x", *names], [x, *targets], first_output=1)
    return targets


def _checked_out(name: str, field: str, out: Any, shape: Sizes, dtype: np.dtype[Any], guest: Guest | None) -> Array:
    array = out if guest is None and type(out) is np.ndarray else target_array(name, field, out, guest)
    if array.shape != shape or array.dtype != dtype:
        message = f"{name}: {field} is {array.dtype} {array.shape}, but the result is {dtype} {shape}"
        raise BindingError(message, name, field, "out has the result's shape and dtype")
    check_output(name, field, array)
    return array
