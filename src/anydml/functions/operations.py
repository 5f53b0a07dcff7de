"""What each function infers and what it is lowered to, and how NumPy does it at once where the work is little."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anydml import infer
from anydml.engines.numpy.views import take
from anydml.moves import Move
from anydml.operators.gather import gather_moves
from anydml.operators.parts import packed_part_moves, part_moves
from anydml.operators.slice import slice_moves
from anydml.operators.slice1 import copy_start
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
Parameters = tuple[Any, ...]


class Inferred(NamedTuple):
    """What is known of a call from shapes and numbers.

    Attributes:
        parameters: its arguments, checked, as lowering wants them.
        shapes: of the results.
        views: of the one input, for NumPy, if the results are that.
    """

    parameters: Parameters
    shapes: list[Sizes]
    views: Sequence[tuple[Any, ...]] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """A function on arrays, without any array.

    Attributes:
        infer: from what errors call it, the inputs' shapes and its hashable arguments; raises DescError.
        lower: to moves, from the layouts of inputs (operands 0 …) and results (the operands after them), which are
            packed if the last argument is True.
        by_numpy: writes the results of inputs to arrays.
        input_names: what errors call the inputs, where it is not ``arrays[i]``.
        has_parts: whether there are several results.
        few: how many times as many bytes as others NumPy makes as fast as a program.
        copies_all: whether NumPy first copies all of an input that is not contiguous.
        new: the same as `by_numpy` for few numbers, where NumPy makes the results itself in less time.
    """

    infer: Callable[[str, Sequence[Sizes], Parameters], Inferred]
    lower: Callable[[Sequence[Layout], Sequence[Layout], Parameters, bool], tuple[Move, ...]]
    by_numpy: Callable[[Sequence[Array], Inferred, Sequence[Array]], None]
    input_names: tuple[str, ...] = ("x",)
    has_parts: bool = False
    few: int = 1
    copies_all: bool = False
    new: Callable[[Sequence[Array], Inferred], list[Array]] | None = None


def _infer_split(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    (shape,), (sizes, axis) = shapes, arguments
    axis = infer.axis_of(name, len(shape), axis)
    parts = infer.part_shapes(shape, infer.part_sizes(name, sizes, shape[axis], axis), axis)
    ends = [*itertools.accumulate(part[axis] for part in parts)]
    before = (slice(None),) * axis
    views = [(*before, slice(end - part[axis], end)) for part, end in zip(parts, ends, strict=True)]
    return Inferred((axis,), parts, views)


def _lower_split(
    inputs: Sequence[Layout], outputs: Sequence[Layout], parameters: Parameters, is_packed: bool
) -> tuple[Move, ...]:
    (whole,), (axis,) = inputs, parameters
    if is_packed:
        rows, runs = _rows_and_runs(outputs, axis)
        return packed_part_moves(rows, runs, into_whole=False)
    return part_moves((0, whole), tuple(enumerate(outputs, 1)), axis, into_whole=False)


def _copy_views(inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> None:
    (x,) = inputs
    for output, view in zip(outputs, inferred.views, strict=True):
        output[...] = x[view]


def _concatenate(inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> None:
    np.concatenate(inputs, *inferred.parameters, out=outputs[0])


def _infer_join(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    axis, _, whole = infer.join(name, shapes, None, *arguments)
    return Inferred((axis,), [whole])


def _lower_join(
    inputs: Sequence[Layout], outputs: Sequence[Layout], parameters: Parameters, is_packed: bool
) -> tuple[Move, ...]:
    (whole,), (axis,) = outputs, parameters
    if is_packed:
        rows, runs = _rows_and_runs(inputs, axis)
        return packed_part_moves(rows, runs, into_whole=True)
    return part_moves((len(inputs), whole), tuple(enumerate(inputs)), axis, into_whole=True)


def _rows_and_runs(parts: Sequence[Layout], axis: int) -> tuple[int, list[int]]:
    """How often packed parts follow each other in their whole, and each part's bytes in one of these rows."""
    sizes = parts[0].sizes
    run = math.prod(sizes[axis + 1 :]) * parts[0].element_size
    return math.prod(sizes[:axis]), [part.sizes[axis] * run for part in parts]


def _infer_slice(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    starts, shape, steps = infer.slice_(name, *shapes, *arguments)
    return _window(starts, shape, steps)


def _infer_slice1(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    offsets, sizes, steps, shape = infer.slice1(name, *shapes, *arguments)
    return _window(copy_start(offsets, sizes, steps), shape, steps)


def _window(starts: Sizes, shape: Sizes, steps: Sizes) -> Inferred:
    return Inferred((starts, steps), [shape], [tuple(map(_taken, starts, shape, steps))])


def _infer_copy(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    (shape,) = shapes
    return Inferred(((0,) * len(shape), (1,) * len(shape)), [shape], [(...,)])


def _lower_slice(
    inputs: Sequence[Layout], outputs: Sequence[Layout], parameters: Parameters, is_packed: bool
) -> tuple[Move, ...]:
    (source,), (destination,), (starts, steps) = inputs, outputs, parameters
    return slice_moves(source, destination, starts, steps)


def _taken(start: int, size: int, step: int) -> slice:
    """The elements of one dimension, from the first one on, in either direction."""
    end = start + size * step
    return slice(start, end if end >= 0 else None, step) if size else slice(0)


def _infer_gather(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    axis, index_dtype = arguments
    shape, index_shape = shapes
    rank, count = len(index_shape), math.prod(index_shape)
    axis = infer.gather(name, shape, axis, rank, count, index_dtype, is_integer=True, out_of_range="clamp")
    return Inferred((axis, index_dtype.name), [(*shape[:axis], *index_shape, *shape[axis + 1 :])])


def _lower_gather(
    inputs: Sequence[Layout], outputs: Sequence[Layout], parameters: Parameters, is_packed: bool
) -> tuple[Move, ...]:
    (source, indices), (destination,), (axis, index_dtype) = inputs, outputs, parameters
    return gather_moves(source, indices, destination, axis, index_dtype)


def _picked(inputs: Sequence[Array], inferred: Inferred) -> list[Array]:
    x, indices = inputs
    return [take(x, indices, inferred.parameters[0])]


def _pick(inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> None:
    (x, indices), (output,) = inputs, outputs
    # As a list: what one index picks would be no array, and what it is might be taken to pieces.
    output[...] = take(x, indices.reshape(-1), inferred.parameters[0]).reshape(output.shape)


SPLIT = Operation(_infer_split, _lower_split, _copy_views, has_parts=True)
JOIN = Operation(_infer_join, _lower_join, _concatenate, input_names=())
SLICE = Operation(_infer_slice, _lower_slice, _copy_views)
SLICE1 = Operation(_infer_slice1, _lower_slice, _copy_views)
COPY = Operation(_infer_copy, _lower_slice, _copy_views)
GATHER = Operation(
    _infer_gather, _lower_gather, _pick, input_names=("x", "indices"), few=16, copies_all=True, new=_picked
)
