"""Conversion and checks of the functions' arguments: lists of arrays, indices, masks, sizes and strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, read_argument
from anydml.arrays.receive import adapter_of, check_host, check_place
from anydml.errors import BindingError, DescError
from anydml.fields import LIST, ONE_OR_LIST, UNORDERED, check_length
from anydml.memory import device_array
from anydml.memory.device_array import DeviceArray, as_array
from anydml.operators.element import Element
from anydml.operators.function import INDICES, MASK, HostIntegers, Parameter
from anydml.strides import in_words
from anydml.symbols import integer_or_open, integers_or_symbols
from anydml.text import a, count_noun

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

MASKS = frozenset(("bool", "uint8", "int8"))
"""Dtypes of masks: one byte per element, true unless it is 0."""

MAX_INDICES = 1 << 60
"""This many INT64 indices would exceed the address space."""

_INDEX_DTYPES = frozenset(map(np.dtype, ("int32", "int64", "uint32", "uint64")))


def is_movable(dtype: np.dtype[Any]) -> bool:
    """Whether elements are plain bytes, unlike objects and variable-length strings, whose references NumPy counts."""
    return not dtype.hasobject and dtype.kind != "T"


def joined_dtype(name: str, field: str, arrays: Sequence[Array]) -> np.dtype[Any]:
    """Return the common dtype of arrays to join, the longest for strings of several lengths.

    Raises:
        DescError: the arrays have several dtypes.
    """
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) > 1 and {dtype.kind for dtype in dtypes} not in ({"U"}, {"S"}):
        check_data(name, [f"{field}[{i}]" for i in range(len(arrays))], arrays)
    return np.result_type(*dtypes) if len(dtypes) > 1 else dtypes.pop()


def check_data(name: str, fields: Sequence[str], arrays: Sequence[Any]) -> None:
    """Check that all arrays have one dtype.

    Raises:
        DescError: the arrays have several dtypes.
    """
    first = arrays[0].dtype
    for field, array in zip(fields, arrays, strict=True):
        if array.dtype != first:
            dtypes = [str(dtype).removeprefix("torch.") for dtype in (array.dtype, first)]
            message = f"{name}: {field} is {dtypes[0]}, but {fields[0]} is {dtypes[1]}: convert one of them"
            raise DescError(message, name, field, "all arrays must have the same dtype")


def check_out_list(name: str, out: Any) -> None:
    """Check that `out` is a list, for a function with several results.

    Raises:
        BindingError: `out` is not such a list.
    """
    if out is None:
        return
    try:
        len(out), iter(out)
        if isinstance(out, UNORDERED):
            raise TypeError
    except TypeError:
        raise BindingError(
            f"{name}: out is {a(type(out).__name__)}", name, "out", "out must be a list of arrays, one per part"
        ) from None


def check_count(name: str, count: int, parts: int) -> None:
    """Check the number of arrays of an `out`.

    Raises:
        BindingError: the count is not the number of parts.
    """
    if count != parts:
        message = f"{name}: out has {count_noun(count, 'array')} for {count_noun(parts, 'part')}"
        raise BindingError(message, name, "out", "out must have one array per part")


def check_word(name: str, field: str, value: Any, words: Sequence[str]) -> None:
    """Check that a value is one of several strings.

    Raises:
        DescError: the value is none of the strings.
    """
    if not isinstance(value, str) or value not in words:
        text = f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"
        raise DescError(f"{name}: {field} is {value!r}; it must be {text}", name, field, f"{field} must be {text}")


def host_integers(name: str, field: str, values: Any) -> HostIntegers:
    """Return integers whose values are needed before anything is moved, such as sizes.

    Raises:
        BindingError: the integers are on a GPU.
    """
    if isinstance(values, HostIntegers):
        return values
    array, adapter = read_argument(name, [] if values is None else values, field)
    check_host(name, field, adapter or array, not isinstance(array, DeviceArray))
    if array.ndim:
        check_length(name, field, array)
    is_integer = array.dtype.kind in "iu"
    return HostIntegers(array.shape, str(array.dtype), is_integer, tuple(array.tolist()) if array.ndim == 1 else None)


def convert_argument(name: str, parameter: Parameter, value: Any, dtype: Any) -> Any:
    """Convert an argument that is not an array to Python's own types, `HostIntegers` or `Element`.

    Args:
        name: the function's name, for errors.
        parameter: the argument's parameter.
        value: the caller's argument.
        dtype: NumPy's dtype of the arrays, which scalars get.

    Raises:
        DescError: the argument has another type, or is not one of the parameter's words.
    """
    field, type_name = parameter.name, parameter.kind
    if type_name == "HostInts | None":
        return host_integers(name, field, value)
    if type_name == "Scalar":
        return Element.of(name, field, value, dtype)
    if parameter.words:
        check_word(name, field, value, parameter.words)
        return value
    if value is None and type_name.endswith("| None"):
        return None
    type_name = type_name.removesuffix(" | None")
    # An array without dimensions is an integer, too, although it has a method for its length.
    is_single = isinstance(value, (int, np.integer)) or (hasattr(value, "__len__") and getattr(value, "ndim", 1) == 0)
    if type_name == "int" or (type_name != "Ints" and is_single):
        return integer_or_open(name, field, value)
    return integers_or_symbols(name, field, value, LIST if type_name == "Ints" else ONE_OR_LIST)


def secondary_array(name: str, parameter: Parameter, argument: Any, x: Array, adapter: ArrayAdapter | None) -> Array:
    """Return an array argument other than the first in the form that the engines take: on x's device.

    Args:
        name: the function's name, for errors.
        parameter: the argument's parameter.
        argument: the caller's argument.
        x: the first array.
        adapter: x's adapter; None for NumPy arrays.

    Raises:
        BindingError: the array is of another library or on another device.
        DescError: indices are not integers, or 2⁶⁰ or more; or a mask has neither bools nor 8-bit integers.
    """
    field, argument_adapter = parameter.name, adapter_of(argument)
    if argument_adapter is not None:
        check_place(name, field, argument_adapter, adapter, "x")
    array, _ = read_argument(name, argument_adapter or argument, field)
    if parameter.kind == MASK:
        check_mask(name, field, array.dtype)
    elif parameter.kind == INDICES:
        # NumPy converts empty lists to floats.
        if array.dtype.kind not in "iu" and (array.size or isinstance(argument, np.ndarray)):
            raise index_dtype_error(name, field, array.dtype)
        if array.size >= MAX_INDICES:
            message = f"{name}: {field} have shape {array.shape}, which is {array.size} indices"
            raise DescError(
                f"{message}: there must be fewer than 2⁶⁰", name, field, f"{field} must have fewer than 2⁶⁰ elements"
            )
        if array.dtype not in _INDEX_DTYPES:
            array = as_array(device_array.integers(array)) if isinstance(array, DeviceArray) else in_words(array)
    else:
        return array
    if isinstance(x, DeviceArray) and not isinstance(array, DeviceArray):
        return as_array(device_array.upload_indices(array, x))
    return array


def index_dtype_error(name: str, field: str, dtype: Any) -> DescError:
    """Return the error for indices that are not integers."""
    message = f"{name}: {field} are {dtype}, but must be integers of at most 64 bits: convert them first"
    return DescError(message, name, field, f"{field} must be integers of at most 64 bits")


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
