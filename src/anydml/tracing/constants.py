"""Conversion of constant arguments of words: integers, which may be open, arrays, and dtypes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anydml.arrays import read_argument
from anydml.arrays.receive import adapter_of
from anydml.errors import FuseIndexError
from anydml.moves.wrapped_indices import out_of_range, wrapped
from anydml.tracing.open_sizes import OpenSize
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.short_integers import ShortInteger
from anydml.tracing.trace import Trace, TracedArray, with_needed_argument

Array = np.ndarray[Any, Any]

MAX_CONSTANT_ELEMENTS = 1 << 28
"""Maximum number of elements of constant indices, flags and lengths, which are held in memory."""


def whole_number(number: Any) -> Any:
    """Convert an integer of any library to `int`; open sizes stay open.

    Raises:
        TypeError: `number` is not an integer.
        FuseError: it is a traced array with dimensions.
    """
    if type(number) is OpenSize:
        return number
    refuse_traced_numbers(number)
    if type(number) is np.bool_:
        # The answer of a comparison, which NumPy takes for 0 or 1, as Python's.
        return int(number)
    if type(number) is not int and str(getattr(number, "dtype", "")).endswith("bool"):
        raise TypeError("an integer is required, not a bool")
    return number.open_size if type(number) is ShortInteger else operator.index(number)


def whole_numbers(numbers: Any) -> list[Any]:
    """Convert one integer, or a list of integers, to a list.

    Raises:
        TypeError: an item is not an integer.
        FuseError: there are more than 2²⁸.
    """
    refuse_traced_numbers(numbers)
    if not is_list(numbers):
        return [whole_number(numbers)]
    _check_count(len(numbers))
    return [*map(whole_number, numbers)]


def refuse_traced_numbers(numbers: Any) -> None:
    """Refuse a traced array of numbers, such as sizes or shifts.

    Raises:
        FuseError: the numbers are a traced array with dimensions.
    """
    if isinstance(numbers, TracedArray) and numbers.ndim:
        reason = "its elements are not known while the function is traced: pass a tuple of integers"
        raise refusal(f"numbers from {numbers!r}", reason)


def is_list(numbers: Any) -> bool:
    """Whether an argument is a list of numbers; an array without dimensions is not."""
    return hasattr(numbers, "__len__") and getattr(numbers, "ndim", 1) != 0


def require_untraced(value: Any) -> Any:
    """Return an argument that determines a shape.

    Raises:
        FuseError: the value is traced.
    """
    if isinstance(value, TracedArray):
        raise with_needed_argument(
            refusal(
                f"selection by {value!r}",
                "the result's shape would depend on elements: call it outside the fused function",
            ),
            value,
        )
    return value


def constant_array(value: Any) -> Array:
    """Convert constants of any library to a NumPy array; open numbers are pinned.

    Raises:
        FuseError: the numbers are traced, or there are more than 2²⁸.
    """
    is_array = isinstance(require_untraced(value), np.ndarray) or adapter_of(value) is not None
    array: Array = read_argument("a constant", value)[0] if is_array else np.asarray(value)
    if array.dtype == object and all(type(element) in (int, OpenSize) for element in array.flat):
        array = np.asarray([int(element) for element in array.flat]).reshape(array.shape)
    _check_count(array.size)
    return array


def _check_count(count: int) -> None:
    if count > MAX_CONSTANT_ELEMENTS:
        raise fuse_error(
            f"a constant of {count} numbers, but at most {MAX_CONSTANT_ELEMENTS} are supported: pass it as an argument"
        )


def constant_indices(indices: Any, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Wrap and check constant indices.

    Raises:
        FuseError: the indices are not integers, or out of range.
    """
    array = constant_array(indices)
    if array.dtype.kind not in "iu" and array.size:
        raise fuse_error(f"indices are {array.dtype}, not integers", FuseIndexError)
    if array.size and (int(array.min()) < -size or int(array.max()) >= size):
        index = int(array.min()) if int(array.min()) < -size else int(array.max())
        raise fuse_error(out_of_range(index, size), FuseIndexError)
    return wrapped(array, size)


def traced_or_constant(value: Any) -> Any:
    """Return a traced array unchanged, and constants as a NumPy array."""
    return value if isinstance(value, TracedArray) else constant_array(value)


TORCH_INDEX_DTYPES = ("int64", "int32")
"""The dtypes of index tensors that PyTorch's functions accept."""

TORCH_KEY_DTYPES = (*TORCH_INDEX_DTYPES, "uint8", "bool")
"""The dtypes of index tensors that PyTorch accepts in brackets."""


def torch_indices(value: Any, dtypes: Sequence[str] = TORCH_INDEX_DTYPES) -> Any:
    """Convert indices as `traced_or_constant` does, and check that PyTorch accepts their dtype.

    Args:
        value: a traced array, or a constant.
        dtypes: the dtypes that a tensor may have.

    Raises:
        TypeError: the indices are a list or a number.
        FuseError: the indices are a tensor of another dtype.
    """
    is_array = isinstance(value, (TracedArray, np.ndarray)) or adapter_of(value) is not None
    if dtypes is not TORCH_KEY_DTYPES and not is_array:
        raise TypeError(f"indices must be a tensor, not {type(value).__name__}")
    indices = traced_or_constant(value)
    is_tensor = not isinstance(value, (TracedArray, np.ndarray)) and adapter_of(value) is not None
    dtype = getattr(indices, "element", indices.dtype)
    if (is_tensor or isinstance(value, TracedArray)) and dtype.name not in dtypes:
        raise fuse_error(f"indices in a tensor of {dtype}: PyTorch takes {' or '.join(dtypes)}", FuseIndexError)
    return indices


def check_torch_mask(mask: Any) -> None:
    """Check that PyTorch accepts the dtype of a mask for filling.

    Raises:
        FuseError: its elements are bytes.
    """
    if str(getattr(mask, "element", getattr(mask, "dtype", ""))).endswith("uint8"):
        raise fuse_error("a uint8 mask of what is filled: PyTorch takes bool", FuseIndexError)


def refuse_negative(indices: Any) -> Any:
    """Mark negative indices as out of range, in a traced array or constants.

    Raises:
        FuseError: a constant is negative.
    """
    checked_indices = traced_or_constant(indices)
    if isinstance(checked_indices, TracedArray):
        name = checked_indices.element.name
        if name not in ("int32", "int64") or not checked_indices.element.isnative:
            return checked_indices
        # Read as unsigned, negative numbers exceed any size.
        checked_indices.trace.note_unsigned(checked_indices.value, 8 * checked_indices.itemsize)
        return checked_indices.trace.new_array(checked_indices.value, np.dtype(f"u{name}"))
    if checked_indices.size and int(checked_indices.min()) < 0:
        raise fuse_error(
            f"index {int(checked_indices.min())} is negative: indices must be 0 or more, not counted from the end",
            FuseIndexError,
        )
    return checked_indices


def trace_of(values: Iterable[Any]) -> Trace:
    """Return the trace of the first traced array."""
    for value in values:
        if isinstance(value, TracedArray):
            return value.trace
    raise fuse_error("a call of traced arrays without one")


def arrays_of(trace: Trace, sources: Iterable[Any], is_weak: bool = False) -> list[TracedArray]:
    """Convert to traced arrays; constants get the others' dtype if NumPy's promotion gives this dtype.

    Args:
        trace: the trace.
        sources: arrays and constants.
        is_weak: whether Python's numbers get a dtype that holds them, as NumPy's scalars do in arithmetic.
    """
    values = [*sources]
    dtypes = {source.element for source in values if isinstance(source, TracedArray)}
    dtypes = dtypes or {source.dtype for source in values if isinstance(source, np.ndarray)}

    def with_common_dtype(value: Any) -> Any:
        if (
            len(dtypes) != 1
            or isinstance(value, TracedArray)
            or not isinstance(value, (bool, int, float, complex, list, np.ndarray, np.generic))
        ):
            return value
        (dtype,), array = dtypes, np.asarray(value)
        native = dtype.newbyteorder("=")
        promoted_with = value if is_weak and type(value) in (bool, int, float, complex) else array
        keeps_dtype = (
            array.dtype != dtype and array.dtype.kind in "biufc" and np.result_type(promoted_with, dtype) == native
        )
        return array.astype(dtype) if keeps_dtype else array

    return [trace.array(with_common_dtype(source)) for source in values]


def dtype_of(x: TracedArray | None, dtype: Any) -> np.dtype[Any]:
    """Convert a dtype of NumPy or PyTorch to NumPy's; None is the array's own."""
    if dtype is None and x is not None:
        return x.element
    if isinstance(dtype, TracedArray):
        raise TypeError(f"{dtype!r} is not a dtype")
    if not type(dtype).__module__.startswith("torch"):
        return np.dtype(dtype)  # type: ignore[no-any-return]
    import torch

    return read_argument("dtype", torch.empty(0, dtype=dtype))[0].dtype  # type: ignore[no-any-return]
