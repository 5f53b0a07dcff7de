"""The functions' arguments that are arrays: indices, sizes that are data, `out`; brought to one form or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml import infer
from anydml.arrays import ArrayAdapter, host_values
from anydml.memory.device_array import DeviceArray, as_array, integers

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

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


def index_array(array: Array, x: Array, adapter: ArrayAdapter | None) -> Array:
    """Indices as INT32, INT64, UINT32 or UINT64 in native byte order, on x's device; other integers become INT64."""
    dtype = array.dtype
    if dtype not in _INDEX_DTYPES:
        if isinstance(array, DeviceArray):
            return as_array(integers(array))
        array = array.astype(dtype.newbyteorder("=") if dtype.kind in "iu" and dtype.itemsize >= 4 else np.int64)
    if adapter is not None and isinstance(x, DeviceArray) and not isinstance(array, DeviceArray):
        return as_array(adapter.upload(array))
    return array
