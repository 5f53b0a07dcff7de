"""The functions' arguments that are arrays: indices, sizes that are data, `out`; brought to one form or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml import infer
from anydml.backends.device_array import DeviceArray, as_array
from anydml.binding import check_output, check_overlap
from anydml.errors import BindingError
from anydml.interop import Guest, host_values, target_array

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

_INDEX_DTYPES = frozenset(map(np.dtype, ("int32", "int64", "uint32", "uint64")))

_INPUTS = {"slice": ("x",), "slice1": ("x",), "gather": ("x", "indices")}
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


def split_sizes(name: str, split: Any, num_outputs: int | None, whole: int, axis: int) -> Sizes:
    """The parts' sizes that SplitTraining's second input stands for.

    Raises:
        DescError: it is not a 1-D list of integers, does not add up, or is not as long as there are outputs.
    """
    values = split if type(split) is np.ndarray else host_values(name, "split", [] if split is None else split)
    count = infer.equal_part_count(name, values.shape, values.dtype, values.dtype.kind in "iu", num_outputs)
    if count is None:
        return infer.part_sizes(name, values.tolist(), whole, axis, "split")
    return infer.equal_parts(name, count, whole, axis, "num_outputs")


def are_indices(array: Array, given: Any) -> bool:
    """Whether an array holds indices: it is of integers, or what NumPy made of an empty list.

    Args:
        array: as the engines see it.
        given: what the caller gave.
    """
    if array.dtype in _INDEX_DTYPES or array.dtype.kind in "iu":
        return True
    return not array.size and not isinstance(given, np.ndarray)


def index_array(array: Array, x: Array, guest: Guest | None) -> Array:
    """Indices as INT32, INT64, UINT32 or UINT64 in native byte order, on x's device; other integers become INT64."""
    dtype = array.dtype
    if dtype not in _INDEX_DTYPES:
        if isinstance(array, DeviceArray):
            from anydml.backends.cuda.memory import integers

            return as_array(integers(array))
        array = array.astype(dtype.newbyteorder("=") if dtype.kind in "iu" and dtype.itemsize >= 4 else np.int64)
    if guest is not None and isinstance(x, DeviceArray) and not isinstance(array, DeviceArray):
        return as_array(guest.upload(array))
    return array


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
