"""Conversion of constant arguments of words: integers, which may be open, arrays, and dtypes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anydml.arrays import read_argument
from anydml.arrays.receive import adapter_of
from anydml.errors import FuseIndexError
from anydml.moves.wrapped_indices import wrapped
from anydml.tracing.refusing import broken, refused
from anydml.tracing.short_integers import Short
from anydml.tracing.sizes import Size
from anydml.tracing.trace import Trace, TracedArray, needing

Array = np.ndarray[Any, Any]

MAX_KNOWN = 1 << 28
"""Maximum number of elements of constant indices, flags and lengths, which are held in memory."""


def whole_number(number: Any) -> Any:
    """Convert an integer of any library to `int`; open sizes stay open.

    Raises:
        TypeError: `number` is not an integer.
    """
    if type(number) is Size:
        return number
    if type(number) is not int and str(getattr(number, "dtype", "")).endswith("bool"):
        raise TypeError("an integer is required, not a bool")
    return number.size if type(number) is Short else operator.index(number)


def whole_numbers(numbers: Any) -> list[Any]:
    """Convert one integer, or a list of integers, to a list.

    Raises:
        TypeError: an item is not an integer.
        FuseError: there are more than 2²⁸.
    """
    if not is_list(numbers):
        return [whole_number(numbers)]
    _check_count(len(numbers))
    return [*map(whole_number, numbers)]


def is_list(numbers: Any) -> bool:
    """Whether an argument is a list of numbers; an array without dimensions is not."""
    return hasattr(numbers, "__len__") and getattr(numbers, "ndim", 1) != 0


def untraced(value: Any) -> Any:
    """Return an argument that determines a shape.

    Raises:
        FuseError: it is traced.
    """
    if isinstance(value, TracedArray):
        raise needing(refused(f"selection by {value!r}", "the result's shape would depend on elements"), value)
    return value


def known_array(value: Any) -> Array:
    """Convert constants of any library to a NumPy array; open numbers are pinned.

    Raises:
        FuseError: they are traced, or there are more than 2²⁸.
    """
    is_array = isinstance(untraced(value), np.ndarray) or adapter_of(value) is not None
    array: Array = read_argument("a constant", value)[0] if is_array else np.asarray(value)
    if array.dtype == object and all(type(element) in (int, Size) for element in array.flat):
        array = np.asarray([int(element) for element in array.flat]).reshape(array.shape)
    _check_count(array.size)
    return array


def _check_count(count: int) -> None:
    if count > MAX_KNOWN:
        raise broken(f"a constant of {count} numbers, but at most {MAX_KNOWN} are supported: pass it as an argument")


def known_indices(indices: Any, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Wrap and check constant indices.

    Raises:
        FuseError: the indices are not integers, or out of range.
    """
    array = known_array(indices)
    if array.dtype.kind not in "iu" and array.size:
        raise broken(f"indices are {array.dtype}, not integers", FuseIndexError)
    if array.size and (int(array.min()) < -size or int(array.max()) >= size):
        outside = int(array.min()) if int(array.min()) < -size else int(array.max())
        raise broken(f"index {outside} is out of range for an axis of size {size}", FuseIndexError)
    return wrapped(array, size)


def traced_or_known(value: Any) -> Any:
    """Return a traced array unchanged, and constants as a NumPy array."""
    return value if isinstance(value, TracedArray) else known_array(value)


INDICES_OF_TORCH = ("int64", "int32")
KEYS_OF_TORCH = (*INDICES_OF_TORCH, "uint8", "bool")
"""The dtypes of index tensors that PyTorch's functions accept, and those that its brackets accept."""


def torch_indices(value: Any, dtypes: Sequence[str] = INDICES_OF_TORCH) -> Any:
    """Convert indices as `traced_or_known` does, and check that PyTorch accepts their dtype.

    Args:
        value: a traced array, or a constant.
        dtypes: the dtypes that a tensor may have.

    Raises:
        FuseError: they are a tensor of another dtype.
    """
    indices = traced_or_known(value)
    is_tensor = not isinstance(value, (TracedArray, np.ndarray)) and adapter_of(value) is not None
    dtype = getattr(indices, "element", indices.dtype)
    if (is_tensor or isinstance(value, TracedArray)) and dtype.name not in dtypes:
        raise broken(f"indices in a tensor of {dtype}: PyTorch takes {' or '.join(dtypes)}", FuseIndexError)
    return indices


def check_mask_of_torch(mask: Any) -> None:
    """Check that PyTorch accepts the dtype of a mask for filling.

    Raises:
        FuseError: its elements are bytes.
    """
    if str(getattr(mask, "element", getattr(mask, "dtype", ""))).endswith("uint8"):
        raise broken("a uint8 mask of what is filled: PyTorch takes bool", FuseIndexError)


def from_zero(indices: Any) -> Any:
    """Mark negative indices as out of range, in a traced array or constants.

    Raises:
        FuseError: a constant is negative.
    """
    by = traced_or_known(indices)
    if isinstance(by, TracedArray):
        name = by.element.name
        if name not in ("int32", "int64") or not by.element.isnative:
            return by
        # Read as unsigned, negative numbers exceed any size.
        by.trace.note_unsigned(by.value, 8 * by.itemsize)
        return by.trace.new_array(by.value, np.dtype(f"u{name}"))
    if by.size and int(by.min()) < 0:
        raise broken(f"index {int(by.min())} is out of range", FuseIndexError)
    return by


def trace_of(values: Iterable[Any]) -> Trace:
    """Return the trace of the first traced array."""
    for value in values:
        if isinstance(value, TracedArray):
            return value.trace
    raise broken("a call of traced arrays without one")


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

    def alike(value: Any) -> Any:
        if (
            len(dtypes) != 1
            or isinstance(value, TracedArray)
            or not isinstance(value, (bool, int, float, complex, list, np.ndarray, np.generic))
        ):
            return value
        (dtype,), array = dtypes, np.asarray(value)
        promoting = value if is_weak and type(value) in (bool, int, float, complex) else array
        is_held = array.dtype != dtype and array.dtype.kind in "biufc" and np.result_type(promoting, dtype) == dtype
        return array.astype(dtype) if is_held else array

    return [trace.array(alike(source)) for source in values]


def dtype_of(x: TracedArray | None, dtype: Any) -> np.dtype[Any]:
    """Convert a dtype of NumPy or PyTorch to NumPy's; None is the array's own."""
    if dtype is None and x is not None:
        return x.element
    if not type(dtype).__module__.startswith("torch"):
        return np.dtype(dtype)  # type: ignore[no-any-return]
    import torch

    return read_argument("dtype", torch.empty(0, dtype=dtype))[0].dtype  # type: ignore[no-any-return]
