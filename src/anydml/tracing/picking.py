"""The verbs that select elements by indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.errors import BindingError, FuseIndexError
from anydml.moves.arithmetic_sequences import is_arithmetic_sequence
from anydml.moves.composer import SCRATCH
from anydml.moves.index_runs import runs_of, select_runs
from anydml.moves.move import Fill, OutOfRange, all_lookups
from anydml.moves.value import Value
from anydml.moves.value_maker import ValueView
from anydml.operators.gather_elements import gather_elements_rule
from anydml.tracing.array_verbs import apply_rule, reshape, shape_with
from anydml.tracing.constants import constant_array, constant_indices
from anydml.tracing.refusing import CLAMPING_TAKE, fuse_error
from anydml.tracing.trace import TracedArray, with_needed_argument

INDEX_DTYPES = frozenset(map(np.dtype, ("int32", "int64", "uint32", "uint64")))

FEW_RUNS = 4
"""Maximum number of runs of constant indices that become slices if a lookup is possible."""

MAX_INDEX_RUNS = 64
"""Maximum number of runs of constant indices that become slices if a lookup is impossible."""

Indices = np.ndarray[Any, np.dtype[np.int64]]


def pick(x: TracedArray, indices: Any, axis: int, outside: OutOfRange = "error") -> TracedArray:
    """Select elements along an axis by indices, whose shape replaces the axis; constant indices are checked now.

    Args:
        x: the array.
        indices: traced or constant; negative ones count from the end.
        axis: 0 to rank − 1.
        outside: ``"clamp"``, or ``"error"`` for IndexError.
    """
    if isinstance(indices, TracedArray):
        return pick_points(x, [(axis, x.trace.array(indices))], outside)
    constant_numbers, size = constant_array(indices), x.shape[axis]
    if outside == "clamp" and constant_numbers.size:
        constant_numbers = (
            np.clip(constant_numbers, -size, size - 1)
            if constant_numbers.dtype.kind == "i"
            else np.minimum(constant_numbers, np.uint64(size - 1))
        )
    constant_numbers = constant_indices(constant_numbers, size)
    return reshape(_pick_by_runs(x, constant_numbers.reshape(-1), axis), shape_with(x, axis, *constant_numbers.shape))


def _pick_by_runs(x: TracedArray, indices: Indices, axis: int) -> TracedArray:
    """Select elements by constant indices: joined slices if there are few runs, else a lookup."""
    runs = runs_of(indices, FEW_RUNS if _supports_lookups(x, axis) else MAX_INDEX_RUNS)
    if runs is None:
        return pick_points(x, [(axis, x.trace.array(indices))], "clamp")
    return x.new_array(select_runs(x.trace.composer, x.value, axis, runs))


def _supports_lookups(x: TracedArray, axis: int) -> bool:
    """Whether an axis supports lookups: every piece covers it by one factor."""
    covered = [(piece.start[axis], [f[1:] for f in piece.factors if f.axis == axis]) for piece in x.value.pieces]
    return all(not start and factors == [(x.shape[axis], 1)] for start, factors in covered)


def pick_points(x: TracedArray, picks: Sequence[tuple[int, TracedArray]], outside: OutOfRange = "error") -> TracedArray:
    """Select elements by one index along each of several axes; all indices have the same shape.

    Raises:
        FuseError: the indices' dtype is not supported, or an axis is empty.
    """
    for axis, indices in picks:
        _check(x, indices, axis, outside)
    first, first_indices = picks[0]
    if not first_indices.count:
        other_axes = {axis for axis, _ in picks[1:]}
        sizes = [
            n
            for k, size in enumerate(x.shape)
            if k not in other_axes
            for n in (first_indices.shape if k == first else (size,))
        ]
        return x.new_array(Value(tuple(sizes), x.itemsize, ()))
    values = [(axis, indices.value, indices.element.name) for axis, indices in picks]
    if len(values) == 1:
        return x.new_array(
            x.trace.composer.pick(x.value, first_indices.value, first_indices.element.name, first, outside)
        )
    return x.new_array(x.trace.composer.pick_points(x.value, values, outside))


def pick_along(x: TracedArray, indices: TracedArray, axis: int, outside: OutOfRange) -> TracedArray:
    """Like numpy.take_along_axis, for shapes that are equal except along the axis."""
    _check(x, indices, axis, outside)
    if not indices.count:
        return x.new_array(Value(indices.shape, x.itemsize, ()))
    return apply_rule(gather_elements_rule, x, index_view(indices), axis, outside)[0]


def index_view(indices: TracedArray) -> ValueView:
    """Return indices as the view that rules take."""
    return ValueView(indices.value, indices.element.name)


def _check(x: TracedArray, indices: TracedArray, axis: int, outside: OutOfRange) -> None:
    check_dtype_of(indices)
    if not x.shape[axis] and indices.count:
        raise fuse_error(f"axis {axis} of {x!r} is empty, but there are indices", FuseIndexError)
    if outside == "clamp":
        return
    for piece in indices.value.pieces:
        source = piece.source
        if isinstance(source, Fill) or is_arithmetic_sequence(source):
            continue
        if any(operand >= SCRATCH for operand in (source.operand, *(e.operand for e in all_lookups(source.lookups)))):
            hint = f"pass them as an argument, or to {CLAMPING_TAKE}, which clamps"
            raise fuse_error(f"indices are checked before anything moves, but these would have to move first: {hint}")


def check_dtype_of(indices: TracedArray) -> None:
    """Check that indices can be looked up.

    Raises:
        FuseError: the dtype is not supported.
        BindingError: the indices are lazy.
    """
    dtype, trace = indices.element, indices.trace
    if dtype not in INDEX_DTYPES or not dtype.isnative:
        if trace.lazy_indices and indices.value.pieces:
            raise BindingError(f"{trace.name}: {trace.lazy_indices}", trace.name)
        names = "int32, int64, uint32 or uint64 in native byte order"
        raise with_needed_argument(
            fuse_error(f"indices among the arguments must be {names}, not {dtype}", FuseIndexError), indices
        )


def index_array(x: TracedArray, index: Any, size: int) -> tuple[TracedArray, bool]:
    """Return indices of an axis of a size as a traced array, and whether they are checked, as constants are at once."""
    if isinstance(index, TracedArray):
        return x.trace.array(index), False
    return x.trace.array(constant_indices(index, size)), True
