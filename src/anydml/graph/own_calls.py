"""anydml's functions of traced arrays: as those of arrays, without `out`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml import infer
from anydml.fields import integer, integers
from anydml.functions import arguments
from anydml.graph import shaping
from anydml.graph.refusing import named, refused
from anydml.graph.trace import Trace, TracedArray
from anydml.operators.slice1 import copy_start


def check_out(name: str, out: Any) -> None:
    """Nothing is written while a function is traced.

    Raises:
        FuseError: something should be.
    """
    if out is not None:
        raise refused(f"{name} with out", "take the result instead")


def split(x: TracedArray, sizes_or_sections: Any, axis: Any = 0) -> list[TracedArray]:
    """As `anydml.split`."""
    return _split("split", x, sizes_or_sections, axis)


def split_training(x: TracedArray, split: Any, axis: Any = 0, num_outputs: Any = None) -> list[TracedArray]:
    """As `anydml.split_training`; the sizes are known."""
    if isinstance(split, TracedArray):
        raise refused("SplitTraining by traced sizes", "shapes would depend on elements: pass a list of sizes")
    axis = infer.axis_of("SplitTraining", x.ndim, axis)
    sizes = arguments.split_sizes("SplitTraining", split, num_outputs, x.shape[axis], axis)
    return _split("SplitTraining", x, sizes, axis)


def _split(name: str, x: TracedArray, sizes_or_sections: Any, axis: Any) -> list[TracedArray]:
    if not isinstance(sizes_or_sections, (int, np.integer)):
        sizes_or_sections = integers(name, "sizes_or_sections", sizes_or_sections)
    axis = infer.axis_of(name, x.ndim, axis)
    parts, start = [], 0
    for size in infer.part_sizes(name, sizes_or_sections, x.shape[axis], axis):
        parts.append(shaping.cut(x, axis, start if size else 0, size))
        start += size
    return parts


def join(parts: Sequence[Any], axis: Any = 0) -> TracedArray:
    """As `anydml.join`."""
    return _join("join", parts, axis)[0]


def concat_training(parts: Sequence[Any], axis: Any = 0) -> tuple[TracedArray, Any]:
    """As `anydml.concat_training`; the sizes are known."""
    joined, lengths = _join("ConcatTraining", parts, axis)
    return joined, np.array(lengths, np.int64)


def _join(name: str, parts: Sequence[Any], axis: Any) -> tuple[TracedArray, Sequence[int]]:
    trace: Trace = next(part.trace for part in parts if isinstance(part, TracedArray))
    arrays = [trace.array(part) for part in parts]
    axis, lengths, _ = infer.join(name, [each.shape for each in arrays], [each.element for each in arrays], axis)
    with named(name):
        return shaping.joined(arrays, axis), lengths


def slice(x: TracedArray, offsets: Any, sizes: Any, strides: Any = None) -> TracedArray:
    """As `anydml.slice`."""
    steps = None if strides is None else integers("slice", "strides", strides)
    given = integers("slice", "offsets", offsets), integers("slice", "sizes", sizes), steps
    starts, shape, found = infer.slice_("slice", x.shape, *given)
    return _window(x, starts, shape, found)


def slice1(
    x: TracedArray, window_offsets: Any, window_sizes: Any, window_strides: Any, output_sizes: Any
) -> TracedArray:
    """As `anydml.slice1`."""
    begin = integers("slice1", "window_offsets", window_offsets)
    window = integers("slice1", "window_sizes", window_sizes)
    by = integers("slice1", "window_strides", window_strides)
    wanted = None if output_sizes is None else integers("slice1", "output_sizes", output_sizes)
    offsets, sizes, steps, shape = infer.slice1("slice1", x.shape, begin, window, by, wanted)
    return _window(x, copy_start(offsets, sizes, steps), shape, steps)


def _window(x: TracedArray, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> TracedArray:
    if 0 in shape:
        starts, steps = [0] * len(shape), [1] * len(shape)
    return shaping.sliced(x, starts, shape, steps)


def gather(x: Any, indices: Any, axis: Any = 0, *, out_of_range: Any = "clamp") -> TracedArray:
    """As `anydml.gather`."""
    trace: Trace = x.trace if isinstance(x, TracedArray) else indices.trace
    x = trace.array(x)
    by = indices if isinstance(indices, TracedArray) else np.asarray(indices)
    if not isinstance(indices, (TracedArray, np.ndarray)) and not by.size:
        by = by.astype(np.int64)
    axis = integer("gather", "axis", axis)
    count, dtype = (by.count, by.element) if isinstance(by, TracedArray) else (by.size, by.dtype)
    axis = infer.gather("gather", x.shape, axis, by.ndim, count, dtype, dtype.kind in "iu", out_of_range)
    with named("gather"):
        if isinstance(by, TracedArray):
            return shaping.looked_up(x, [(axis, trace.array(by))], "refuse" if out_of_range == "error" else "clamp")
        if out_of_range == "clamp" and by.size:
            size = x.shape[axis]
            is_signed = by.dtype.kind == "i"
            by = by.astype(np.int64 if is_signed else np.uint64)
            by = np.clip(by, -size, size - 1) if is_signed else np.minimum(by, np.uint64(size - 1))
        return shaping.picked(x, by, axis)


def copy(x: TracedArray) -> TracedArray:
    """As `anydml.copy`: results of a fused function are always new."""
    return x.trace.array(x)
