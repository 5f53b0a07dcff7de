"""Conversion and checks of the functions' arguments: lists of arrays, indices, masks, sizes and strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, host_values
from anydml.errors import BindingError, DescError
from anydml.fields import LIST, ONE_OR_LIST, check_length, integer, integers, wrong
from anydml.memory import device_array
from anydml.memory.device_array import DeviceArray, as_array
from anydml.operators.element import Element
from anydml.operators.function import Function, Listed, Parameter, Parameters
from anydml.operators.split_training import known_sizes
from anydml.strides import in_words
from anydml.text import a

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

MASKS = frozenset(("bool", "uint8", "int8"))
"""Dtypes of masks: one byte per element, true unless it is 0."""

MOST_INDICES = 1 << 60
"""This many INT64 indices would exceed the address space."""

_INDEX_DTYPES = frozenset(map(np.dtype, ("int32", "int64", "uint32", "uint64")))


def is_movable(dtype: np.dtype[Any]) -> bool:
    """Whether elements are plain bytes, unlike objects and variable-length strings, whose references NumPy counts."""
    return not dtype.hasobject and dtype.kind != "T"


def joined_dtype(arrays: Sequence[Array]) -> np.dtype[Any] | None:
    """Return the common dtype of arrays, the longest for strings of several lengths, or None if there is none."""
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) > 1 and {dtype.kind for dtype in dtypes} not in ({"U"}, {"S"}):
        return None
    return dtypes.pop() if len(dtypes) == 1 else np.result_type(*dtypes)


def split_sizes(name: str, split: Any, num_outputs: int | None, whole: int, axis: int) -> Sizes:
    """Return the sizes of the parts, from the second input of SplitTraining.

    Raises:
        DescError: `split` is not a 1-D list of integers, has a wrong sum, or does not have one entry per output.
    """
    return known_sizes(name, all_parts(name, "split", split), num_outputs, whole, axis)


def are_indices(array: Array, given: Any) -> bool:
    """Whether an array may be indices: its elements are integers, or it was converted from an empty list.

    Args:
        array: the indices as the engines see them.
        given: the caller's argument.
    """
    if array.dtype in _INDEX_DTYPES or array.dtype.kind in "iu":
        return True
    return not array.size and not isinstance(given, np.ndarray)


def index_array(array: Array, x: Array, adapter: ArrayAdapter | None) -> Array:
    """Return indices on x's device, as INT32, INT64, UINT32 or UINT64 in native byte order; others become INT64."""
    if array.dtype not in _INDEX_DTYPES:
        if isinstance(array, DeviceArray):
            return as_array(device_array.integers(array))
        array = in_words(array)
    return _on_same_device(array, x, adapter)


def _on_same_device(array: Array, x: Array, adapter: ArrayAdapter | None) -> Array:
    """Upload a host array if x is on a GPU."""
    if adapter is not None and isinstance(x, DeviceArray) and not isinstance(array, DeviceArray):
        return as_array(adapter.upload(array))
    return array


def as_tuple(name: str, field: str, arrays: Any) -> tuple[Any, ...]:
    """Return a list of arrays as a tuple.

    Raises:
        DescTypeError: it is not iterable.
    """
    check_length(name, field, arrays)
    try:
        items = iter(arrays)
    except TypeError:
        # Arrays without dimensions have `__iter__`, too, which raises.
        raise wrong(name, field, arrays, "a list of arrays") from None
    return tuple(items)


def check_joined(name: str, field: str, arrays: Sequence[Array]) -> None:
    """Check that the arrays of a list have one dtype, or are strings.

    Raises:
        DescError: they have several dtypes.
    """
    if joined_dtype(arrays) is None:
        check_data(name, [f"{field}[{i}]" for i in range(len(arrays))], arrays)


def check_data(name: str, fields: Sequence[str], arrays: Sequence[Any]) -> None:
    """Check that all arrays have one dtype.

    Raises:
        DescError: they have several dtypes.
    """
    first = arrays[0].dtype
    for field, array in zip(fields, arrays, strict=True):
        if array.dtype != first:
            message = f"{name}: {field} is {array.dtype}, but {fields[0]} is {first}: convert one of them"
            raise DescError(message, name, field, "all arrays must have the same dtype")


def check_out_list(name: str, out: Any) -> None:
    """Check that `out` is a list, for a function with several results.

    Raises:
        BindingError: it is not.
    """
    if out is None:
        return
    try:
        len(out), iter(out)
    except TypeError:
        raise BindingError(
            f"{name}: out is {a(type(out).__name__)}", name, "out", "out must be a list of arrays, one per part"
        ) from None


def check_word(name: str, field: str, value: Any, words: Sequence[str]) -> None:
    """Check that a value is one of several strings.

    Raises:
        DescError: it is not.
    """
    if not isinstance(value, str) or value not in words:
        text = f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"
        raise DescError(f"{name}: {field} is {value!r}; it must be {text}", name, field, f"{field} must be {text}")


def all_parts(name: str, field: str, values: Any) -> Listed:
    """Return integers whose values are needed before anything is moved, such as sizes.

    Raises:
        BindingError: they are on a GPU.
    """
    if isinstance(values, Listed):
        return values
    array = values if type(values) is np.ndarray else host_values(name, field, [] if values is None else values)
    if array.ndim:
        check_length(name, field, array)
    is_integer = array.dtype.kind in "iu"
    return Listed(array.shape, str(array.dtype), is_integer, tuple(array.tolist()) if array.ndim == 1 else None)


def converted(name: str, parameter: Parameter, value: Any, dtype: Any) -> Any:
    """Convert an argument that is not an array to Python's own types, `Listed` or `Element`.

    Args:
        name: the function's name, for errors.
        parameter: the argument's parameter.
        value: the caller's argument.
        dtype: NumPy's dtype of the arrays, which scalars get.

    Raises:
        DescError: it has another type, or is not one of the parameter's words.
    """
    field, kind = parameter.name, parameter.kind
    if kind == "HostInts | None":
        return all_parts(name, field, value)
    if kind == "Scalar":
        return Element.of(name, field, value, dtype)
    if parameter.words:
        check_word(name, field, value, parameter.words)
        return value
    if value is None and kind.endswith("| None"):
        return None
    kind = kind.removesuffix(" | None")
    if kind == "int" or (kind != "Ints" and isinstance(value, (int, np.integer))):
        return integer(name, field, value)
    return integers(name, field, value, LIST if kind == "Ints" else ONE_OR_LIST)


def checked_indices(name: str, field: str, array: Array, given: Any, x: Array, adapter: ArrayAdapter | None) -> Array:
    """Return indices in the form that the engines take.

    Args:
        name: the function's name, for errors.
        field: the argument's name, for errors.
        array: the indices as the engines see them.
        given: the caller's argument.
        x: the array on whose device the indices must be.
        adapter: x's adapter; None for NumPy arrays.

    Raises:
        DescError: they are not integers, or 2⁶⁰ or more.
    """
    if not are_indices(array, given):
        message = f"{name}: {field} are {array.dtype}, but only integers count: convert them first"
        raise DescError(message, name, field, f"{field} must be integers")
    if array.size >= MOST_INDICES:
        message = (
            f"{name}: {field} have shape {array.shape}, which is {array.size} indices: there must be fewer than 2⁶⁰"
        )
        raise DescError(message, name, field, f"{field} must have fewer than 2⁶⁰ elements")
    return index_array(array, x, adapter)


def checked_mask(name: str, field: str, array: Array, x: Array, adapter: ArrayAdapter | None) -> Array:
    """Return a mask on x's device.

    Raises:
        DescError: its elements are neither bools nor 8-bit integers.
    """
    check_mask(name, field, array.dtype)
    return _on_same_device(array, x, adapter)


def check_mask(name: str, field: str, dtype: Any) -> None:
    """Check that a mask has one byte per element.

    Args:
        name: the function's name, for errors.
        field: the argument's name, for errors.
        dtype: the mask's NumPy dtype, or its name.

    Raises:
        DescError: the dtype is neither bool nor an 8-bit integer.
    """
    if str(dtype) not in MASKS:
        message = f"{name}: {field} is {dtype}, but a mask must have bools or 8-bit integers: pass {field} != 0"
        raise DescError(message, name, field, f"{field} must have bools or 8-bit integers")


def with_lengths(
    function: Function, joined: Any, inputs: Sequence[Array], arguments: Parameters, adapter: ArrayAdapter | None
) -> tuple[Any, Any]:
    """Return the result of a join, and the inputs' lengths as an array in host memory."""
    assert function.lengths is not None
    shapes = [array.shape for array in inputs]
    lengths = np.array(function.lengths(shapes, function.infer(function.label, shapes, arguments).parameters), np.int64)
    return joined, lengths if adapter is None else adapter.from_lengths(lengths)
