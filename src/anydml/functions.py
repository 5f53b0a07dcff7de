"""The operators as functions on arrays: any NumPy array in, new contiguous arrays (or `out`) back.

Arrays on a GPU (PyTorch's, CuPy's, any with DLPack or ``__cuda_array_interface__``) stay there: the work is done on the
caller's current stream, and the results are arrays of the caller's library. Parts of a split share one block of memory.

No feature level binds them, nor a limit on dimensions or elements; empty arrays and parts are welcome. Arguments that
break a rule raise `DescError`, an `out` that does not fit raises `BindingError`; nothing is written before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from anydml.arrays import (
    index_array,
    is_movable,
    joined_dtype,
    moved_positions,
    normalize_axis,
    output_array,
    output_arrays,
    part_sizes,
    split_sizes,
    strides_key,
    vector,
)
from anydml.backends.cpu.engine import CpuProgram, program
from anydml.backends.device_array import DeviceArray, as_array
from anydml.errors import DescError
from anydml.operators.gather import gather_moves
from anydml.operators.parts import part_moves
from anydml.operators.slice import slice_moves
from anydml.operators.slice1 import copy_start, max_copied_elements
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

PLANS = 512
"""Programs that each function keeps for layouts it has seen."""


def split(
    x: Any, sizes_or_sections: int | Sequence[int], axis: int = 0, *, out: Sequence[Array] | None = None
) -> list[Array]:
    """Split an array along an axis (DML_OPERATOR_SPLIT, without its limits).

    Args:
        x: array of any shape with at least one dimension, and any dtype.
        sizes_or_sections: a number of equal parts, or the parts' sizes along `axis`, 0 or more, adding up to its size.
        axis: −rank to rank − 1.
        out: arrays of the parts' shapes and x's dtype to write to.

    Returns:
        The parts, as new contiguous arrays, or `out`'s arrays.

    Raises:
        DescError: the axis is out of range, does not divide, or the sizes do not add up.
        BindingError: `out` does not fit, or overlaps x or itself.
    """
    x = as_array(x)
    axis = normalize_axis("split", x, axis)
    return _split("split", x, part_sizes("split", sizes_or_sections, x.shape[axis], axis), axis, out)


def split_training(
    x: Any,
    split: Any,
    axis: int = 0,
    num_outputs: int | None = None,
    *,
    out: Sequence[Array] | None = None,
) -> list[Array]:
    """com.microsoft SplitTraining, version 1: split by sizes that are data.

    Args:
        x: array of any shape with at least one dimension, and any dtype, strings and objects included.
        split: the parts' sizes along `axis`: a 1-D integer array, list or host tensor. Empty or None: equal parts.
        axis: −rank to rank − 1.
        num_outputs: number of parts; needed where `split` is empty, otherwise it must be split's length.
        out: arrays of the parts' shapes and x's dtype to write to.

    Returns:
        The parts, as new contiguous arrays, or `out`'s arrays.

    Raises:
        DescError: the axis is out of range, does not divide, a size is negative, or they do not add up.
        BindingError: `out` does not fit, or overlaps x or itself.
    """
    x = as_array(x)
    axis = normalize_axis("SplitTraining", x, axis)
    sizes = split_sizes("SplitTraining", split, num_outputs, x.shape[axis], axis)
    return _split("SplitTraining", x, sizes, axis, out)


def join(arrays: Sequence[Any], axis: int = 0, *, out: Array | None = None) -> Array:
    """Join arrays along an axis (DML_OPERATOR_JOIN, without its limits): the inverse of `split`.

    Args:
        arrays: at least one, of one dtype (strings of any lengths are one), with equal shapes but along `axis`.
        axis: −rank to rank − 1.
        out: array of the joined shape and dtype to write to.

    Returns:
        The joined array, new and contiguous, or `out`.

    Raises:
        DescError: there are no arrays, or their dtypes or shapes do not fit together, or the axis is out of range.
        BindingError: `out` does not fit, or overlaps an input.
    """
    return _join("join", arrays, axis, out)[0]


def concat_training(arrays: Sequence[Any], axis: int = 0, *, out: Array | None = None) -> tuple[Array, Array]:
    """com.microsoft ConcatTraining, version 1: join, and say how long each input was.

    Args:
        arrays: at least one, of one dtype, with equal shapes but along `axis`. Strings and objects are welcome.
        axis: −rank to rank − 1.
        out: array of the joined shape and dtype to write to.

    Returns:
        The joined array, and the inputs' sizes along `axis` (INT64, 1-D), which `split_training` takes back.

    Raises:
        DescError, BindingError: as `join`.
    """
    joined, lengths = _join("ConcatTraining", arrays, axis, out)
    return joined, np.array(lengths, np.int64)


def slice(
    x: Any, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None, *,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """``result[c] = x[offsets + strides · c]`` (DML_OPERATOR_SLICE, without its limits).

    Args:
        x: array of any shape and dtype.
        offsets: first coordinate, one a dimension.
        sizes: the result's shape.
        strides: steps of at least 1, one a dimension; by default all 1.
        out: array of shape `sizes` and x's dtype to write to.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: counts differ from x's rank, a value is negative, or an element outside x would be read.
        BindingError: `out` does not fit, or overlaps x.
    """
    x = as_array(x)
    starts = vector("slice", "offsets", offsets, x.ndim)
    shape = vector("slice", "sizes", sizes, x.ndim)
    steps = (1,) * x.ndim if strides is None else vector("slice", "strides", strides, x.ndim)
    for i, (whole, start, size, step) in enumerate(zip(x.shape, starts, shape, steps, strict=True)):
        if start < 0 or size < 0 or step < 1:
            values = f"offsets[{i}] is {start}, sizes[{i}] {size}, strides[{i}] {step}"
            raise DescError(f"slice: {values}", "slice", f"sizes[{i}]", "offsets, sizes >= 0 and strides >= 1")
        last = start + (size - 1) * step if size else start - 1
        if last >= whole:
            message = f"slice: offsets[{i}] + (sizes[{i}] − 1)·strides[{i}] is {last}, but x.shape[{i}] is {whole}"
            raise DescError(message, "slice", f"sizes[{i}]", "the last element taken lies inside x")
    return _slice("slice", x, starts, shape, steps, out)


def slice1(
    x: Any,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """A strided window of an array, forwards or backwards (DML_OPERATOR_SLICE1, without its limits).

    Args:
        x: array of any shape and dtype.
        window_offsets: where the window begins, one a dimension.
        window_sizes: how far it extends, one a dimension; 0 is an empty result.
        window_strides: steps, never 0; negative ones start at the window's end.
        output_sizes: the result's shape; by default all that the window gives, ``1 + (size − 1) // |stride|``.
        out: array of the result's shape and x's dtype to write to.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: the window leaves x, a stride is 0, or more is asked for than the window gives.
        BindingError: `out` does not fit, or overlaps x.
    """
    x = as_array(x)
    offsets = vector("slice1", "window_offsets", window_offsets, x.ndim)
    sizes = vector("slice1", "window_sizes", window_sizes, x.ndim)
    steps = vector("slice1", "window_strides", window_strides, x.ndim)
    for i, (whole, offset, size, step) in enumerate(zip(x.shape, offsets, sizes, steps, strict=True)):
        if offset < 0 or size < 0 or offset + size > whole:
            message = f"slice1: window {offset} … {offset + size} of dimension {i}, but x.shape[{i}] is {whole}"
            raise DescError(message, "slice1", f"window_sizes[{i}]", "the window lies inside x")
        if step == 0:
            message = f"slice1: window_strides[{i}] is 0"
            raise DescError(message, "slice1", f"window_strides[{i}]", "a stride is never 0")
    most = tuple(max_copied_elements(size, step) if size else 0 for size, step in zip(sizes, steps, strict=True))
    shape = most if output_sizes is None else vector("slice1", "output_sizes", output_sizes, x.ndim)
    for i, (size, limit) in enumerate(zip(shape, most, strict=True)):
        if not 0 <= size <= limit:
            message = f"slice1: output_sizes[{i}] is {size}, but the window gives at most {limit}"
            raise DescError(message, "slice1", f"output_sizes[{i}]", "at most 1 + (window size − 1) / |stride|")
    return _slice("slice1", x, copy_start(offsets, sizes, steps), shape, steps, out)


def gather(
    x: Any,
    indices: Any,
    axis: int = 0,
    *,
    out_of_range: Literal["clamp", "error"] = "clamp",
    out: Array | None = None,
) -> Array:
    """Elements along an axis picked by indices (DML_OPERATOR_GATHER, without its limits).

    Args:
        x: array of any shape with at least one dimension, and any dtype.
        indices: integers of any type and shape. A negative one counts from the end of the axis.
        axis: −rank to rank − 1.
        out_of_range: ``"clamp"`` reads the nearest end of the axis, ``"error"`` raises IndexError before writing.
        out: array of the result's shape and x's dtype to write to.

    Returns:
        An array of shape ``x.shape[:axis] + indices.shape + x.shape[axis+1:]``, new and contiguous, or `out`.

    Raises:
        DescError: indices are not integers, the axis is out of range, or it is empty and indices are not.
        IndexError: with ``out_of_range="error"``, an index is outside.
        BindingError: `out` does not fit, or overlaps x or the indices.
    """
    x, indices = as_array(x), index_array("gather", indices)
    axis = normalize_axis("gather", x, axis)
    size = x.shape[axis]
    if out_of_range not in ("clamp", "error"):
        message = f"gather: out_of_range is {out_of_range!r}"
        raise DescError(message, "gather", "out_of_range", "out_of_range is 'clamp' or 'error'")
    if indices.size and not size:
        message = f"gather: axis {axis} of x is empty, but there are {indices.size} indices"
        raise DescError(message, "gather", "x", "there is an element to read")
    if out_of_range == "error" and indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexError(f"gather: index {wrong} is out of range for axis {axis} with size {size}")
    if isinstance(x, DeviceArray) or isinstance(indices, DeviceArray):
        picked: Array = _on_device().gather(x, indices, axis, out)
        return picked
    result = output_array("gather", out, x.shape[:axis] + indices.shape + x.shape[axis + 1 :], x.dtype, (x, indices))
    if not is_movable(x.dtype):
        positions = gather(moved_positions(x), indices, axis)
        result[...] = x.reshape(-1)[positions]
    elif result.size:
        key = (x.shape, x.strides, x.itemsize, indices.shape, indices.strides, indices.dtype.name)
        _gather_program(*key, axis, strides_key(result, out)).run((x, indices, result))
    return result


def _on_device() -> Any:
    """The functions' second half for arrays on a GPU."""
    from anydml.backends.cuda import functions

    return functions


def _split(name: str, x: Array, sizes: Sizes, axis: int, out: Sequence[Array] | None) -> list[Array]:
    if isinstance(x, DeviceArray):
        parts: list[Array] = _on_device().split(name, x, sizes, axis, out)
        return parts
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    outputs = output_arrays(name, out, [(*before, size, *after) for size in sizes], x.dtype, x)
    if not is_movable(x.dtype):
        start = 0
        for output, size in zip(outputs, sizes, strict=True):
            output[...] = x[(np.s_[:],) * axis + (np.s_[start : start + size],)]
            start += size
    elif x.size:
        strides = None if out is None else tuple(output.strides for output in outputs)
        _split_program(x.shape, x.strides, x.itemsize, sizes, axis, strides).run((x, *outputs))
    return outputs


def _join(name: str, arrays: Sequence[Any], axis: int, out: Array | None) -> tuple[Array, Sizes]:
    parts = tuple(map(as_array, arrays))
    if not parts:
        raise DescError(f"{name}: there are no arrays to join", name, "arrays", "at least one array")
    first = parts[0]
    axis = normalize_axis(name, first, axis)
    before, after = first.shape[:axis], first.shape[axis + 1 :]
    dtype = joined_dtype(parts)
    for i, part in enumerate(parts):
        if dtype is None and part.dtype != first.dtype:
            message = f"{name}: arrays[{i}] is {part.dtype}, but arrays[0] is {first.dtype}"
            raise DescError(message, name, f"arrays[{i}]", "all arrays have one dtype")
        if part.ndim != first.ndim or part.shape[:axis] != before or part.shape[axis + 1 :] != after:
            message = f"{name}: arrays[{i}] has shape {part.shape}, but arrays[0] has {first.shape} and axis is {axis}"
            raise DescError(message, name, f"arrays[{i}]", "shapes are equal but along axis")
    lengths = tuple(part.shape[axis] for part in parts)
    whole = (*before, sum(lengths), *after)
    if any(isinstance(part, DeviceArray) for part in parts):
        return _on_device().join(name, parts, axis, whole, out), lengths
    result = output_array(name, out, whole, dtype or first.dtype, parts)
    if not is_movable(first.dtype) or any(part.dtype != dtype for part in parts):
        np.concatenate(parts, axis, out=result)
    elif result.size:
        shapes, strides = tuple(p.shape for p in parts), tuple(p.strides for p in parts)
        _join_program(shapes, strides, first.itemsize, axis, strides_key(result, out)).run((*parts, result))
    return result, lengths


def _slice(name: str, x: Array, starts: Sizes, shape: Sizes, steps: Sizes, out: Array | None) -> Array:
    if isinstance(x, DeviceArray):
        taken: Array = _on_device().slice_(name, x, starts, shape, steps, out)
        return taken
    result = output_array(name, out, shape, x.dtype, (x,))
    if not is_movable(x.dtype):
        positions = _slice(name, moved_positions(x), starts, shape, steps, None)
        result[...] = x.reshape(-1)[positions]
    elif result.size:
        key = (x.shape, x.strides, x.itemsize, starts, shape, steps)
        _slice_program(*key, strides_key(result, out)).run((x, result))
    return result


def _output_layout(shape: Sizes, strides: Sizes | None, itemsize: int) -> Layout:
    return Layout.packed(shape, itemsize) if strides is None else Layout(shape, strides, itemsize)


@lru_cache(PLANS)
def _split_program(
    shape: Sizes, source_strides: Sizes, itemsize: int, sizes: Sizes, axis: int, out: tuple[Sizes, ...] | None
) -> CpuProgram:
    before, after = shape[:axis], shape[axis + 1 :]
    every = (None,) * len(sizes) if out is None else out
    parts = [
        (k, _output_layout((*before, size, *after), strides, itemsize))
        for k, (size, strides) in enumerate(zip(sizes, every, strict=True), 1)
    ]
    return program("split", part_moves((0, Layout(shape, source_strides, itemsize)), parts, axis, into_whole=False))


@lru_cache(PLANS)
def _join_program(
    shapes: tuple[Sizes, ...], strides: tuple[Sizes, ...], itemsize: int, axis: int, out: Sizes | None
) -> CpuProgram:
    first = shapes[0]
    whole = (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
    parts = [(k, Layout(*pair, itemsize)) for k, pair in enumerate(zip(shapes, strides, strict=True))]
    return program("join", part_moves((len(parts), _output_layout(whole, out, itemsize)), parts, axis, into_whole=True))


@lru_cache(PLANS)
def _slice_program(
    shape: Sizes, strides: Sizes, itemsize: int, starts: Sizes, sizes: Sizes, steps: Sizes, out: Sizes | None
) -> CpuProgram:
    source = Layout(shape, strides, itemsize)
    return program("slice", slice_moves(source, _output_layout(sizes, out, itemsize), starts, steps))


@lru_cache(PLANS)
def _gather_program(
    shape: Sizes, strides: Sizes, itemsize: int, index_shape: Sizes, index_strides: Sizes, index_dtype: str,
    axis: int, out: Sizes | None,
) -> CpuProgram:  # fmt: skip
    source = Layout(shape, strides, itemsize)
    indices = Layout(index_shape, index_strides, np.dtype(index_dtype).itemsize)
    destination = _output_layout(shape[:axis] + index_shape + shape[axis + 1 :], out, itemsize)
    return program("gather", gather_moves(source, indices, destination, axis, index_dtype))
