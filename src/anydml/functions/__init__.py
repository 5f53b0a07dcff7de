"""The operators as functions on arrays: any array in, new contiguous arrays of its kind (or `out`) back.

An array is NumPy's, PyTorch's, JAX's, CuPy's, or of any library that speaks DLPack; results are of its library, dtype
and device. It is read where it lies: in host memory by the CPU engine, on a GPU by the GPU engine, on the caller's
current stream, where the parts of a split share one block of memory. Lists and scalars are NumPy's. All arrays of one
call are of one library and on one device; only sizes and `gather`'s indices may be lists, or NumPy's, beside another's.
A mask is not moved, so masked arrays are refused.

No feature level binds them, nor a limit on elements; arrays have at most 64 dimensions, as NumPy's do; empty arrays and
parts are welcome. Arguments that break a rule raise `DescError`, an `out` that does not fit raises `BindingError`;
nothing is written before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from anydml import infer
from anydml.arrays import ArrayAdapter, received, received_all, received_indices
from anydml.errors import BindingError
from anydml.fields import integer, integers, wrong
from anydml.functions.arguments import are_indices, index_array, is_movable, joined_dtype, split_sizes
from anydml.functions.calling import call
from anydml.functions.operations import COPY, GATHER, JOIN, SLICE, SLICE1, SPLIT, Operation
from anydml.traced import all_copied, copied, fused_functions, registered_for

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

APART = 64 << 10
"""Bytes of an array whose single elements lie far apart: where at least all of more are picked, they are found faster
in a copy in which they lie side by side."""


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
    adapter = None
    if type(x) is not np.ndarray:
        if (registered := registered_for(x)) is not None:
            return all_copied("split", registered.split(x, sizes_or_sections, axis), out)
        x, adapter = received("split", x)
    if type(sizes_or_sections) is not int and not isinstance(sizes_or_sections, np.integer):
        sizes_or_sections = integers("split", "sizes_or_sections", sizes_or_sections)
    return _split("split", x, sizes_or_sections, axis, out, adapter)


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
    adapter = None
    if type(x) is not np.ndarray:
        if (registered := registered_for(x)) is not None:
            return all_copied("SplitTraining", registered.split_training(x, split, axis, num_outputs), out)
        x, adapter = received("SplitTraining", x)
    axis = infer.axis_of("SplitTraining", x.ndim, axis)
    sizes = split_sizes("SplitTraining", split, num_outputs, x.shape[axis], axis)
    return _split("SplitTraining", x, sizes, axis, out, adapter)


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
    parts = _listed("join", arrays)
    if (registered := _registered_for(parts)) is not None:
        return copied("join", "out", registered.join(parts, axis), out)
    return _join("join", parts, axis, out)[0]


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
    parts = _listed("ConcatTraining", arrays)
    if (registered := _registered_for(parts)) is not None:
        joined, lengths = registered.concat_training(parts, axis)
        return copied("ConcatTraining", "out", joined, out), lengths
    joined, lengths, adapter = _join("ConcatTraining", parts, axis, out)
    per_input_length = np.array(lengths, np.int64)
    return joined, per_input_length if adapter is None else adapter.give_lengths(per_input_length)


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
    adapter = None
    if type(x) is not np.ndarray:
        if (registered := registered_for(x)) is not None:
            return copied("slice", "out", registered.slice(x, offsets, sizes, strides), out)
        x, adapter = received("slice", x)
    steps = None if strides is None else integers("slice", "strides", strides)
    arguments = integers("slice", "offsets", offsets), integers("slice", "sizes", sizes), steps
    return _one("slice", SLICE, (x,), arguments, out, adapter)


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
    adapter = None
    if type(x) is not np.ndarray:
        if (registered := registered_for(x)) is not None:
            taken = registered.slice1(x, window_offsets, window_sizes, window_strides, output_sizes)
            return copied("slice1", "out", taken, out)
        x, adapter = received("slice1", x)
    window = [
        integers("slice1", field, values)
        for field, values in (
            ("window_offsets", window_offsets), ("window_sizes", window_sizes), ("window_strides", window_strides)
        )
    ]  # fmt: skip
    taken = None if output_sizes is None else integers("slice1", "output_sizes", output_sizes)
    return _one("slice1", SLICE1, (x,), (*window, taken), out, adapter)


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
    adapter = None
    if type(x) is not np.ndarray:
        if (registered := registered_for(x)) is not None:
            picked = registered.gather(x, indices, axis, out_of_range=out_of_range)
            return copied("gather", "out", picked, out)
        x, adapter = received("gather", x)
    if (functions := fused_functions(indices)) is not None:
        picked = functions.gather(x if adapter is None else adapter.array, indices, axis, out_of_range=out_of_range)
        return copied("gather", "out", picked, out)
    is_own = adapter is None and type(indices) is np.ndarray
    seen = indices if is_own else received_indices("gather", indices, adapter)
    axis = axis if type(axis) is int else integer("gather", "axis", axis)
    is_integer = are_indices(seen, indices)
    if out_of_range != "clamp" or not is_integer:
        axis = infer.gather("gather", x.shape, axis, seen.ndim, seen.size, seen.dtype, is_integer, out_of_range)
        _check_indices(seen, axis, x.shape[axis])
    indices = index_array(seen, x, adapter)
    if type(x) is np.ndarray and x.nbytes > APART and x.strides[-1] != x.itemsize and is_movable(x.dtype):
        axis = infer.axis_of("gather", x.ndim, axis)
        # Where `out` may lie over x, x itself is what the checks must see.
        is_apart = out is None or (type(out) is np.ndarray and not np.may_share_memory(x, out))
        if is_apart and indices.size >= x.shape[axis]:
            (x,) = call("gather", COPY, (x,), (), None, None)
    return _one("gather", GATHER, (x, indices), (axis, indices.dtype), out, adapter)


def _listed(name: str, arrays: Any) -> tuple[Any, ...]:
    if not hasattr(arrays, "__iter__"):
        raise wrong(name, "arrays", arrays, "a list of arrays")
    return tuple(arrays)


def _registered_for(parts: tuple[Any, ...]) -> Any:
    """What has the functions for arrays that are traced."""
    return fused_functions(*parts) or registered_for(parts[0] if parts else None)


def _check_indices(indices: Array, axis: int, size: int) -> None:
    """Raise IndexError for an index outside an axis of this size."""
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < -size or high >= size:
            outside = low if low < -size else high
            raise IndexError(f"gather: index {outside} is out of range for axis {axis} with size {size}")


def _one(
    name: str, operation: Operation, inputs: tuple[Array, ...], arguments: tuple[Any, ...], out: Any,
    adapter: ArrayAdapter | None,
) -> Any:  # fmt: skip
    """The one result of a function."""
    return call(name, operation, inputs, arguments, None if out is None else (out,), adapter)[0]


def _split(
    name: str, x: Array, sizes: Any, axis: Any, out: Sequence[Any] | None, adapter: ArrayAdapter | None
) -> list[Any]:
    if out is not None and not hasattr(out, "__len__"):
        raise BindingError(f"{name}: out is a {type(out).__name__}", name, "out", "out is a list of arrays, one a part")
    axis = axis if type(axis) is int else integer(name, "axis", axis)
    return call(name, SPLIT, (x,), (sizes, axis), out, adapter)


def _join(name: str, parts: tuple[Any, ...], axis: Any, out: Any | None) -> tuple[Any, Sizes, ArrayAdapter | None]:
    adapter = None
    if set(map(type, parts)) != {np.ndarray}:
        parts, adapter = received_all(name, parts)
    if len({part.dtype for part in parts}) > 1 and joined_dtype(parts) is None:
        infer.join(name, [part.shape for part in parts], [part.dtype for part in parts], axis)
    axis = axis if type(axis) is int else integer(name, "axis", axis)
    if not parts:
        infer.join(name, (), None, axis)
    joined = _one(name, JOIN, parts, (axis,), out, adapter)
    return joined, tuple([part.shape[axis] for part in parts]), adapter
