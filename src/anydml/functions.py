"""The operators as functions on arrays: any array in, new contiguous arrays of its kind (or `out`) back.

An array is NumPy's, PyTorch's, JAX's, CuPy's, or of any library that speaks DLPack; results are of its library, dtype
and device. It is read where it lies: in host memory by the CPU engine, on a GPU by the GPU engine, on the caller's
current stream, where the parts of a split share one block of memory. Lists and scalars are NumPy's. All arrays of one
call are of one library and on one device; only sizes and `gather`'s indices may be lists, or NumPy's, beside another's.
A mask is not moved, so masked arrays are refused.

No feature level binds them, nor a limit on elements; arrays have at most 64 dimensions, as NumPy's do; empty
arrays and parts are welcome. Arguments that break a rule raise `DescError`, an `out` that does not fit raises
`BindingError`; nothing is written before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from anydml.arrays import index_array, joined_dtype, normalize_axis, part_sizes, split_sizes, vector
from anydml.backends.cpu import functions as host
from anydml.backends.device_array import DeviceArray
from anydml.errors import BindingError, DescError
from anydml.fields import check_dimensions, wrong
from anydml.interop import Guest, received, received_all, target_array
from anydml.operators.slice1 import copy_start, max_copied_elements

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def split(
    x: Any, sizes_or_sections: int | Sequence[int], axis: int = 0, *, out: Sequence[Any] | None = None
) -> list[Any]:
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
    x, guest = (x, None) if type(x) is np.ndarray else received("split", x)
    axis = normalize_axis("split", x, axis)
    return _split("split", x, part_sizes("split", sizes_or_sections, x.shape[axis], axis), axis, out, guest)


def split_training(
    x: Any,
    split: Any,
    axis: int = 0,
    num_outputs: int | None = None,
    *,
    out: Sequence[Any] | None = None,
) -> list[Any]:
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
    x, guest = (x, None) if type(x) is np.ndarray else received("SplitTraining", x)
    axis = normalize_axis("SplitTraining", x, axis)
    sizes = split_sizes("SplitTraining", split, num_outputs, x.shape[axis], axis)
    return _split("SplitTraining", x, sizes, axis, out, guest)


def join(arrays: Sequence[Any], axis: int = 0, *, out: Any | None = None) -> Any:
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


def concat_training(arrays: Sequence[Any], axis: int = 0, *, out: Any | None = None) -> tuple[Any, Any]:
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
    joined, lengths, guest = _join("ConcatTraining", arrays, axis, out)
    per_input_length = np.array(lengths, np.int64)
    return joined, per_input_length if guest is None else guest.give_lengths(per_input_length)


def slice(
    x: Any, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None, *,
    out: Any | None = None,
) -> Any:  # fmt: skip
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
    x, guest = (x, None) if type(x) is np.ndarray else received("slice", x)
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
    return _slice("slice", x, starts, shape, steps, out, guest)


def slice1(
    x: Any,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
    *,
    out: Any | None = None,
) -> Any:
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
    x, guest = (x, None) if type(x) is np.ndarray else received("slice1", x)
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
    return _slice("slice1", x, copy_start(offsets, sizes, steps), shape, steps, out, guest)


def gather(
    x: Any,
    indices: Any,
    axis: int = 0,
    *,
    out_of_range: Literal["clamp", "error"] = "clamp",
    out: Any | None = None,
) -> Any:
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
        DescError: indices are not integers, the axis is out of range, it is empty and indices are not, or the result
            has more than 64 dimensions.
        IndexError: with ``out_of_range="error"``, an index is outside.
        BindingError: `out` does not fit, or overlaps x or the indices.
    """
    x, guest = (x, None) if type(x) is np.ndarray else received("gather", x)
    indices = index_array("gather", indices, x, guest)
    axis = normalize_axis("gather", x, axis)
    check_dimensions("gather", "the result", x.ndim - 1 + indices.ndim)
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
    if isinstance(x, DeviceArray):
        target = out if out is None else target_array("gather", "out", out, guest)
        return _answer(guest, _on_device().gather(x, indices, axis, target), out, is_on_device=True)
    result = host.gather(x, indices, axis, out, guest)
    return result if guest is None else _answer(guest, result, out)


def _on_device() -> Any:
    """The functions' second half for arrays on a GPU."""
    from anydml.backends.cuda import functions

    return functions


def _answer(guest: Guest | None, result: Any, out: Any, is_on_device: bool = False) -> Any:
    """What the caller gets: `out`, or the result as an array of their library."""
    if guest is None:
        return result if out is None else out
    if out is None:
        return guest.give_from_device(result) if is_on_device else guest.give(result)
    type(guest)(out).written()
    return out


def _split(name: str, x: Array, sizes: Sizes, axis: int, out: Sequence[Any] | None, guest: Guest | None) -> list[Any]:
    if out is not None and not hasattr(out, "__len__"):
        raise BindingError(f"{name}: out is a {type(out).__name__}", name, "out", "out is a list of arrays, one a part")
    if isinstance(x, DeviceArray):
        targets = out and [target_array(name, f"out[{i}]", array, guest) for i, array in enumerate(out)]
        parts = _on_device().split(name, x, sizes, axis, targets)
        return [
            _answer(guest, part, to, is_on_device=True)
            for part, to in zip(parts, out or [None] * len(parts), strict=True)
        ]
    outputs = host.split(name, x, sizes, axis, out, guest)
    if guest is None:
        return outputs
    return [_answer(guest, part, to) for part, to in zip(outputs, out or [None] * len(outputs), strict=True)]


def _join(name: str, arrays: Sequence[Any], axis: int, out: Any | None) -> tuple[Any, Sizes, Guest | None]:
    if not hasattr(arrays, "__iter__"):
        raise wrong(name, "arrays", arrays, "a list of arrays")
    parts, guest = tuple(arrays), None
    if set(map(type, parts)) != {np.ndarray}:
        parts, guest = received_all(name, parts)
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
    if isinstance(first, DeviceArray):
        target = out if out is None else target_array(name, "out", out, guest)
        joined = _on_device().join(name, parts, axis, whole, target)
        return _answer(guest, joined, out, is_on_device=True), lengths, guest
    result = host.join(name, parts, axis, whole, dtype or first.dtype, out, guest)
    return result if guest is None else _answer(guest, result, out), lengths, guest


def _slice(name: str, x: Array, starts: Sizes, shape: Sizes, steps: Sizes, out: Any | None, guest: Guest | None) -> Any:
    if isinstance(x, DeviceArray):
        target = out if out is None else target_array(name, "out", out, guest)
        return _answer(guest, _on_device().slice_(name, x, starts, shape, steps, target), out, is_on_device=True)
    result = host.slice_(name, x, starts, shape, steps, out, guest)
    return result if guest is None else _answer(guest, result, out)
