"""The functions' arguments, brought to one form or refused: lists of arrays, indices, integers that are data, words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, host_values
from anydml.errors import BindingError, DescError
from anydml.fields import check_length, wrong
from anydml.memory.device_array import DeviceArray, as_array, integers
from anydml.operators.function import Function, Listed, Parameters
from anydml.operators.split_training import known_sizes
from anydml.strides import in_words
from anydml.text import a

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

MASKS = frozenset(("bool", "uint8", "int8"))
"""Names of masks' dtypes: a byte each, true where it is not 0."""

MOST_INDICES = 1 << 60
"""As many INT64 numbers have more bytes than addresses have."""

_INDEX_DTYPES = frozenset(map(np.dtype, ("int32", "int64", "uint32", "uint64")))


def is_movable(dtype: np.dtype[Any]) -> bool:
    """Whether elements are plain bytes; objects and variable-length strings are references that NumPy must count."""
    return not dtype.hasobject and dtype.kind != "T"


def joined_dtype(arrays: Sequence[Array]) -> np.dtype[Any] | None:
    """The dtype that holds all arrays: their one dtype, or the longest of their strings'; None where they differ."""
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) > 1 and {dtype.kind for dtype in dtypes} not in ({"U"}, {"S"}):
        return None
    return dtypes.pop() if len(dtypes) == 1 else np.result_type(*dtypes)


def split_sizes(name: str, split: Any, num_outputs: int | None, whole: int, axis: int) -> Sizes:
    """The parts' sizes that SplitTraining's second input stands for.

    Raises:
        DescError: it is not a 1-D list of integers, does not add up, or is not as long as there are outputs.
    """
    return known_sizes(name, all_parts(name, "split", split), num_outputs, whole, axis)


def are_indices(array: Array, given: Any) -> bool:
    """Whether an array holds indices: it is of integers, or what NumPy made of an empty list.

    Args:
        array: as the engines see it.
        given: what the caller gave.
    """
    if array.dtype in _INDEX_DTYPES or array.dtype.kind in "iu":
        return True
    return not array.size and not isinstance(given, np.ndarray)


def index_array(array: Array, x: Array, adapter: ArrayAdapter | None) -> Array:
    """Indices as INT32, INT64, UINT32 or UINT64 in native byte order, on x's device; other integers become INT64."""
    if array.dtype not in _INDEX_DTYPES:
        if isinstance(array, DeviceArray):
            return as_array(integers(array))
        array = in_words(array)
    return _beside(array, x, adapter)


def _beside(array: Array, x: Array, adapter: ArrayAdapter | None) -> Array:
    """An array on x's device."""
    if adapter is not None and isinstance(x, DeviceArray) and not isinstance(array, DeviceArray):
        return as_array(adapter.upload(array))
    return array


def listed(name: str, field: str, arrays: Any) -> tuple[Any, ...]:
    """A list of arrays.

    Raises:
        DescTypeError: it is none.
    """
    check_length(name, field, arrays)
    try:
        items = iter(arrays)
    except TypeError:
        # Arrays of no dimensions have the methods of lists all the same.
        raise wrong(name, field, arrays, "a list of arrays") from None
    return tuple(items)


def parts_of(name: str, field: str, arrays: Sequence[Array]) -> None:
    """Arrays that are joined have one dtype, or are strings.

    Raises:
        DescError: they have several.
    """
    if joined_dtype(arrays) is None:
        check_data(name, [f"{field}[{i}]" for i in range(len(arrays))], arrays)


def check_data(name: str, fields: Sequence[str], arrays: Sequence[Any]) -> None:
    """All data has one dtype.

    Raises:
        DescError: it has several.
    """
    first = arrays[0].dtype
    for field, array in zip(fields, arrays, strict=True):
        if array.dtype != first:
            message = f"{name}: {field} is {array.dtype}, but {fields[0]} is {first}: convert one of them"
            raise DescError(message, name, field, "all arrays must have the same dtype")


def check_out_list(name: str, out: Any) -> None:
    """`out` of several results is a list.

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
    """One of several words.

    Raises:
        DescError: it is none of them.
    """
    if not isinstance(value, str) or value not in words:
        text = f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"
        raise DescError(f"{name}: {field} is {value!r}; it must be {text}", name, field, f"{field} must be {text}")


def all_parts(name: str, field: str, values: Any) -> Listed:
    """Integers that are read before anything is moved.

    Raises:
        BindingError: they lie on a GPU.
    """
    if isinstance(values, Listed):
        return values
    array = values if type(values) is np.ndarray else host_values(name, field, [] if values is None else values)
    if array.ndim:
        check_length(name, field, array)
    is_integer = array.dtype.kind in "iu"
    return Listed(array.shape, str(array.dtype), is_integer, tuple(array.tolist()) if array.ndim == 1 else None)


def seen_indices(name: str, field: str, array: Array, given: Any, x: Array, adapter: ArrayAdapter | None) -> Array:
    """Indices as engines take them.

    Args:
        name: what errors call the function.
        field: what they call the indices.
        array: as the engines see it.
        given: what the caller gave.
        x: where they have to lie.
        adapter: whose x is.

    Raises:
        DescError: they are no integers.
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


def seen_mask(name: str, field: str, array: Array, x: Array, adapter: ArrayAdapter | None) -> Array:
    """A mask as engines take it: on x's device.

    Raises:
        DescError: it is none.
    """
    check_mask(name, field, array.dtype)
    return _beside(array, x, adapter)


def check_mask(name: str, field: str, dtype: Any) -> None:
    """A mask has a byte an element.

    Args:
        name: what errors call the function.
        field: what they call the mask.
        dtype: NumPy's, or its name.

    Raises:
        DescError: it is of another dtype.
    """
    if str(dtype) not in MASKS:
        message = f"{name}: {field} is {dtype}, but a mask is of bools or 8-bit integers: pass {field} != 0"
        raise DescError(message, name, field, f"{field} must be of bools or 8-bit integers")


def with_lengths(
    function: Function, joined: Any, inputs: Sequence[Array], arguments: Parameters, adapter: ArrayAdapter | None
) -> tuple[Any, Any]:
    """A result, and the inputs' lengths, in host memory."""
    assert function.lengths is not None
    shapes = [array.shape for array in inputs]
    lengths = np.array(function.lengths(shapes, function.infer(function.label, shapes, arguments).parameters), np.int64)
    return joined, lengths if adapter is None else adapter.give_lengths(lengths)
