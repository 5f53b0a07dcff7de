"""anydml's functions of traced arrays: as those of arrays, without `out`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from anydml import infer
from anydml.errors import DescError
from anydml.fields import integer, integers
from anydml.functions import arguments as own_arguments
from anydml.operators.function import Element, Function, Parameter
from anydml.operators.gather import gathered_axis
from anydml.operators.join import joined_shape
from anydml.operators.registry import FUNCTIONS
from anydml.operators.slice import taken
from anydml.operators.slice1 import copy_start, taken_window
from anydml.tracing import numpy_calls, refusing, shaping
from anydml.tracing.refusing import named, refused
from anydml.tracing.trace import Trace, TracedArray


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
    sizes = own_arguments.split_sizes("SplitTraining", split, num_outputs, x.shape[axis], axis)
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
    axis, lengths, _ = joined_shape(name, [each.shape for each in arrays], [each.element for each in arrays], axis)
    with named(name):
        return shaping.joined(arrays, axis), lengths


def slice(x: TracedArray, offsets: Any, sizes: Any, strides: Any = None) -> TracedArray:
    """As `anydml.slice`."""
    steps = None if strides is None else integers("slice", "strides", strides)
    given = integers("slice", "offsets", offsets), integers("slice", "sizes", sizes), steps
    starts, shape, found = taken("slice", x.shape, *given)
    return _window(x, starts, shape, found)


def slice1(
    x: TracedArray, window_offsets: Any, window_sizes: Any, window_strides: Any, output_sizes: Any
) -> TracedArray:
    """As `anydml.slice1`."""
    begin = integers("slice1", "window_offsets", window_offsets)
    window = integers("slice1", "window_sizes", window_sizes)
    by = integers("slice1", "window_strides", window_strides)
    wanted = None if output_sizes is None else integers("slice1", "output_sizes", output_sizes)
    offsets, sizes, steps, shape = taken_window("slice1", x.shape, begin, window, by, wanted)
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
    axis = gathered_axis("gather", x.shape, axis, by.ndim, count, dtype, dtype.kind in "iu", out_of_range)
    with named("gather"):
        if isinstance(by, TracedArray):
            return shaping.looked_up(x, [(axis, trace.array(by))], "refuse" if out_of_range == "error" else "clamp")
        if out_of_range == "clamp" and by.size:
            size = x.shape[axis]
            is_signed = by.dtype.kind == "i"
            by = by.astype(np.int64 if is_signed else np.uint64)
            by = np.clip(by, -size, size - 1) if is_signed else np.minimum(by, np.uint64(size - 1))
        return shaping.picked(x, by, axis)


def __getattr__(name: str) -> Any:
    """Every other function of `anydml.functions`."""
    if name not in FUNCTIONS:
        raise AttributeError(name)
    return partial(_moved, FUNCTIONS[name])


def _moved(function: Function, *arguments: Any, **named: Any) -> Any:
    """What a function moves: composed, or into scratch."""
    given = {**dict(zip([each.name for each in function.parameters], arguments, strict=False)), **named}
    values = [given.get(each.name, each.default) for each in function.parameters]
    label = function.label
    by_name = {each.name: value for each, value in zip(function.parameters, values, strict=True)}
    names = [each.name for each in function.arrays]
    every = [by_name[name] for name in names]
    every = [*every[0]] if function.is_of_lists else every
    trace: Trace = next(each.trace for each in every if isinstance(each, TracedArray))
    count = function.data_count(len(every))
    with refusing.named(label):
        arrays = [trace.array(each) for each in every[:count]]
        indices = [
            _mask(trace, label, parameter.name, each) if parameter.kind == "Mask" else _indices(trace, label, each)
            for parameter, each in zip((p for p in function.arrays if p.is_index), every[count:], strict=True)
        ]
    fields = [f"{function.arrays[0].name}[{k}]" for k in range(count)] if function.is_of_lists else names
    own_arguments.check_data(label, fields[:count], arrays)
    rest: list[Any] = []
    for each, value in zip(function.parameters, values, strict=True):
        if each.kind == "OutOfRange" and value != "clamp":
            raise refused(f"{label} with {each.name}={value!r}", "it is 'clamp'")
        if each.words:
            own_arguments.check_word(label, each.name, value, each.words)
        if not each.is_array and each.kind != "OutOfRange":
            rest.append(_number(label, each, value, arrays[0]))
    rest += [each.element for each in indices]
    inputs = [*arrays, *indices]
    inferred = function.infer(label, [each.shape for each in inputs], tuple(rest))
    if function.name in _COMPOSED:
        numpys, keywords = _COMPOSED[function.name](*values)
        given_arrays = (arrays,) if function.is_of_lists else tuple(arrays)
        return numpy_calls.called(trace, numpys, given_arrays, keywords)
    make = function.constants
    made = trace.composer.moved(
        [each.value for each in inputs],
        inferred.shapes,
        arrays[0].itemsize,
        lambda own, results: function.lower(own, results, inferred.parameters, False),
        f"{label} reads and writes memory",
        None if make is None else lambda own, results: make(own, results, inferred.parameters),
    )
    results = [arrays[0].made(value) for value in made]
    return results if function.has_parts else results[0]


def _padding(x: TracedArray, pads: Sequence[int], mode: str, value: Any) -> tuple[Any, dict[str, Any]]:
    if not x.ndim:
        return np.copy, {}
    around = [*zip(pads[: x.ndim], pads[x.ndim :], strict=True)]
    return np.pad, {"pad_width": around, "mode": mode, **({"constant_values": value} if mode == "constant" else {})}


_COMPOSED: dict[str, Callable[..., tuple[Any, dict[str, Any]]]] = {
    "broadcast_to": lambda x, shape: (np.broadcast_to, {"shape": tuple(shape)}),
    "flip": lambda x, axis: (np.flip, {"axis": axis if axis is None or isinstance(axis, int) else tuple(axis)}),
    "pad": _padding,
    "permute_dims": lambda x, axes: (np.transpose, {"axes": tuple(axes)}),
    "repeat": lambda x, repeats, axis: (np.repeat, {"repeats": repeats, "axis": axis}),
    "roll": lambda x, shift, axis: (np.roll, {"shift": shift, "axis": axis}),
    "stack": lambda arrays, axis: (np.stack, {"axis": axis}),
    "tile": lambda x, repeats: (np.tile, {"reps": tuple(repeats)}),
}
"""What is composed as NumPy's function of the same elements; rules are those of the function."""


def _indices(trace: Trace, label: str, given: Any) -> TracedArray:
    if isinstance(given, TracedArray):
        shaping.check_looked_up(given, "clamp")
        return trace.array(given)
    found = np.asarray(given)
    if not found.size and not isinstance(given, np.ndarray):
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        message = f"{label}: indices are {found.dtype}, but only integers count: convert them first"
        raise DescError(message, label, "indices", "indices are integers")
    return trace.array(found.astype(np.uint64 if found.dtype.kind == "u" and found.itemsize == 8 else np.int64))


def _mask(trace: Trace, label: str, field: str, given: Any) -> TracedArray:
    mask = trace.array(given)
    own_arguments.check_mask(label, field, mask.element)
    return mask


def _number(label: str, parameter: Parameter, value: Any, x: TracedArray) -> Any:
    """An argument that is no array, in Python's own types."""
    kind, field = parameter.kind, parameter.name
    if kind == "Scalar":
        return Element.of(label, field, value, x.element)
    if kind == "HostInts | None":
        return own_arguments.all_parts(label, field, value)
    if value is None or parameter.words:
        return value
    if (
        kind == "int"
        or (kind.startswith("int | Ints") and isinstance(value, (int, np.integer)))
        or kind == "int | None"
    ):
        return integer(label, field, value)
    return integers(label, field, value)


def nonzero_coordinates(x: TracedArray) -> NoReturn:
    """Nothing that can be traced.

    Raises:
        FuseError: always.

    Examples:
        >>> dml.nonzero_coordinates(np.array([[0, 5], [7, 0]]))
        array([[0, 1],
               [1, 0]])
    """
    raise refused("nonzero_coordinates", "shapes would depend on elements: call it outside, and pass what it found")


def copy(x: TracedArray) -> TracedArray:
    """As `anydml.copy`: results of a fused function are always new."""
    return x.trace.array(x)
