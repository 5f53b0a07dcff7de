"""NumPy's functions that join traced arrays, and take them apart. Arguments are NumPy's own, but for `out`."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

from numpy.lib.array_utils import normalize_axis_index

from anydml.tracing import numpy_axes, shaping
from anydml.tracing.refusing import broken
from anydml.tracing.trace import Trace, TracedArray


def concatenate(
    trace: Trace, arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> TracedArray:
    """As NumPy's, and its ``concat``."""
    numpy_axes.no_out(out)
    parts = [*map(trace.array, arrays)]
    if axis is None:
        parts, axis = [numpy_axes.ravel(part) for part in parts], 0
    found = shaping.joined(parts, axis)
    return found if dtype is None else found.astype(dtype)


def stack(trace: Trace, arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Any:
    """As NumPy's."""
    parts = [*map(trace.array, arrays)]
    if len({part.shape for part in parts}) > 1:
        raise broken("all input arrays must have the same shape")
    axis = normalize_axis_index(axis, parts[0].ndim + 1) if parts else 0
    return concatenate(trace, [numpy_axes.expand_dims(part, axis) for part in parts], axis, out, dtype=dtype)


def stacked(rank: int, axis: int) -> Callable[..., Any]:
    """NumPy's ``hstack`` and its like: arrays of so many dimensions at least, joined along an axis."""

    def stack(trace: Trace, tup: Any, *, dtype: Any = None, casting: Any = None) -> TracedArray:
        parts = [numpy_axes.raised(trace.array(array), rank) for array in tup]
        along = 0 if rank == 1 and parts and parts[0].ndim == 1 else axis
        return concatenate(trace, parts, along, dtype=dtype)

    return stack


def append(trace: Trace, arr: Any, values: Any, axis: Any = None) -> TracedArray:
    """As NumPy's."""
    return concatenate(trace, [arr, values], axis)


def column_stack(trace: Trace, tup: Any) -> TracedArray:
    """As NumPy's."""
    parts = [numpy_axes.raised(trace.array(array), 1) for array in tup]
    return concatenate(trace, [numpy_axes.expand_dims(part, 1) if part.ndim == 1 else part for part in parts], 1)


def array_split(x: TracedArray, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """As NumPy's."""
    axis = normalize_axis_index(axis, x.ndim)
    size = x.shape[axis]
    if hasattr(indices_or_sections, "__len__"):
        ends = [0, *map(operator.index, indices_or_sections), size]
    else:
        count = operator.index(indices_or_sections)
        if count <= 0:
            raise broken("number sections must be larger than 0.")
        each, more = divmod(size, count)
        ends = [k * each + min(k, more) for k in range(count + 1)]
    parts = [slice(first, last).indices(size) for first, last in itertools.pairwise(ends)]
    return [shaping.cut(x, axis, first if last > first else 0, max(0, last - first)) for first, last, _ in parts]


def split(x: TracedArray, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """As NumPy's."""
    size = x.shape[normalize_axis_index(axis, x.ndim)]
    if not hasattr(indices_or_sections, "__len__"):
        count = operator.index(indices_or_sections)
        if count > 0 and size % count:
            raise broken("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


def split_at(axis: int) -> Callable[..., Any]:
    """NumPy's ``hsplit`` and its like: along an axis of their own."""

    def given(x: TracedArray, indices_or_sections: Any) -> list[TracedArray]:
        least = (2, 1, 3)[axis]
        if x.ndim < least:
            raise broken(f"{'vhd'[axis]}split only works on arrays of {least} or more dimensions")
        return split(x, indices_or_sections, 0 if axis == 1 and x.ndim == 1 else axis)

    return given
