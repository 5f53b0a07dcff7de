"""Basic operations on traced arrays, on which all others are built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from anydml.errors import FuseIndexError
from anydml.functions.planning import check_size
from anydml.moves.compose import SCRATCH
from anydml.moves.move import Fill, Outside, every_lookup
from anydml.moves.value import Value
from anydml.tracing import integers
from anydml.tracing.refusing import CLAMPING, broken, refused
from anydml.tracing.trace import Trace, TracedArray

INDEX_DTYPES = frozenset(map(np.dtype, ("int32", "int64", "uint32", "uint64")))

MOST_KNOWN = 1 << 28
"""Most constant indices, which are held in memory."""

FEW_RUNS = 4
MOST_RUNS = 64
"""Most runs of constant indices that become slices, if a lookup is possible, and if not."""


def arrays_of(trace: Trace, given: Iterable[Any]) -> list[TracedArray]:
    """Convert to traced arrays; constants get the others' dtype if NumPy's promotion gives this dtype."""
    values = [*given]
    dtypes = {each.element for each in values if isinstance(each, TracedArray)}

    def alike(value: Any) -> Any:
        if len(dtypes) != 1 or not isinstance(value, (bool, int, float, complex, list, np.ndarray, np.generic)):
            return value
        (dtype,), found = dtypes, np.asarray(value)
        is_held = found.dtype != dtype and found.dtype.kind in "biufc" and np.result_type(found, dtype) == dtype
        return found.astype(dtype) if is_held else found

    return [trace.array(alike(each)) for each in values]


def permuted(x: TracedArray, axes: Sequence[int]) -> TracedArray:
    """Axis k of the result is axis ``axes[k]``."""
    return x.made(x.value.permute(axes))


def moved(x: TracedArray, source: int, destination: int, count: int = 1) -> TracedArray:
    """Move `count` axes from `source` on, so that the first becomes axis `destination`."""
    axes = [axis for axis in range(x.ndim) if not source <= axis < source + count]
    axes[destination:destination] = range(source, source + count)
    return permuted(x, axes)


def reshaped(x: TracedArray, shape: Sequence[int]) -> TracedArray:
    """Reshape in row-major order."""
    is_same = len(shape) == x.ndim and tuple(shape) == x.shape
    return x if is_same else x.made(x.trace.composer.reshape(x.value, tuple(shape)))


def sliced(x: TracedArray, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> TracedArray:
    """``result[c] = x[starts + steps · c]``."""
    return x.made(x.trace.composer.slice(x.value, starts, sizes, steps))


def cut(x: TracedArray, axis: int, start: int, size: int, step: int = 1) -> TracedArray:
    """Slice one axis."""
    starts, sizes, steps = [0] * x.ndim, [*x.shape], [1] * x.ndim
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return sliced(x, starts, sizes, steps)


def broadcast(x: TracedArray, shape: Sequence[int]) -> TracedArray:
    """Broadcast to a compatible shape by NumPy's rules.

    Raises:
        DescError: the result exceeds the address space.
    """
    check_size(x.trace.name, tuple(shape), x.element)
    return x.made(x.trace.composer.broadcast(x.value, tuple(shape)))


def broadcast_to(x: TracedArray, shape: Any) -> TracedArray:
    """Like numpy.broadcast_to."""
    sizes = tuple(integers.wholes(shape))
    new = len(sizes) - x.ndim
    if new < 0 or any(own not in (1, n) for own, n in zip(x.shape, sizes[new:], strict=True)):
        raise broken(f"{x!r} does not broadcast to {sizes}")
    return broadcast(x, sizes)


def common_shape(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast.

    Raises:
        FuseError: they do not broadcast.
    """
    found: list[int] = []
    for shape in shapes:
        found[:0] = [1] * (len(shape) - len(found))
        for k, size in enumerate(reversed(shape), 1):
            if size != 1 and found[-k] not in (1, size):
                raise broken(f"shapes {', '.join(map(str, shapes))} do not broadcast to each other")
            found[-k] = size if size != 1 else found[-k]
    return tuple(found)


def joined(arrays: Sequence[TracedArray], axis: int) -> TracedArray:
    """Concatenate arrays along an axis.

    Raises:
        FuseError: shapes or dtypes are incompatible.
    """
    if not arrays:
        raise broken("no arrays to join")
    first = arrays[0]
    axis = normalize_axis_index(axis, first.ndim)
    for k, array in enumerate(arrays):
        if array.element != first.element:
            raise refused(f"arrays of {first.element} and {array.element} in one", "convert them to one dtype first")
        rest, others = ([*each.shape] for each in (array, first))
        del rest[axis : axis + 1], others[axis : axis + 1]
        if array.ndim != first.ndim or rest != others:
            raise broken(f"array {k} has shape {array.shape}, which does not fit {first.shape} along axis {axis}")
    like = next((array.like for array in arrays if array.like is not None), None)
    value = first.trace.composer.join([array.value for array in arrays], axis)
    return first.trace.made(value, first.element, like)


def filled(x: TracedArray, shape: Sequence[int], dtype: Any, number: Any) -> TracedArray:
    """Return an array filled with one number; None is NumPy's zero of the dtype."""
    found = x.element if dtype is None else np.dtype(dtype)
    if isinstance(number, TracedArray):
        raise broken("the fill value must be a constant")
    # NumPy's zero of strings is the empty string, not "0".
    pattern = np.zeros((), found) if number is None else np.asarray(number).astype(found, casting="unsafe")
    if found.type is np.void and not found.names and pattern.any() and np.asarray(number).dtype != found:
        raise broken(f"{number} as {found}, of which NumPy knows only the size: pad with 0, or join an array")
    if pattern.size != 1:
        raise broken(f"the fill value must be one number, not {pattern.size}")
    value = Value.filled(tuple(integers.wholes(shape)), pattern.tobytes())
    return x.trace.made(value, found, x.like if found == x.element else None)


def is_known(indices: Any) -> bool:
    """Whether indices are constants of the trace."""
    return not isinstance(indices, TracedArray)


def check_known(array: np.ndarray[Any, Any]) -> None:
    """Check the size of a constant array of indices, flags or lengths.

    Raises:
        FuseError: it has more than 2²⁸ elements.
    """
    if array.size > MOST_KNOWN:
        raise broken(
            f"a constant of {array.size} numbers, but at most {MOST_KNOWN} are supported: pass it as an argument"
        )


def known_indices(indices: Any, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Wrap and check constant indices.

    Raises:
        FuseError: the indices are not integers, or out of range.
    """
    array = integers.known(indices)
    if array.dtype.kind not in "iu" and array.size:
        raise broken(f"indices are {array.dtype}, not integers", FuseIndexError)
    check_known(array)
    if array.size and (int(array.min()) < -size or int(array.max()) >= size):
        outside = int(array.min()) if int(array.min()) < -size else int(array.max())
        raise broken(f"index {outside} is out of range for an axis of size {size}", FuseIndexError)
    found = array.astype(np.int64)
    return np.where(found < 0, found + size, found)


def picked(x: TracedArray, indices: Any, axis: int, few: int = FEW_RUNS) -> TracedArray:
    """Like numpy.take with mode="raise"; constant indices are checked now."""
    if is_known(indices):
        known = known_indices(indices, x.shape[axis])
        flat = _by_runs(x, known.reshape(-1), axis, few)
        return reshaped(flat, (*x.shape[:axis], *known.shape, *x.shape[axis + 1 :]))
    return looked_up(x, [(axis, x.trace.array(indices))])


def picked_by(x: TracedArray, indices: Any, axis: int, outside: Outside) -> TracedArray:
    """Select elements along an axis, by indices that are traced, or NumPy arrays of INT64 or UINT64.

    Args:
        x: the array.
        indices: negative ones count from the end.
        axis: 0 to rank − 1.
        outside: ``"clamp"``, or ``"refuse"`` for IndexError.
    """
    if not is_known(indices):
        return looked_up(x, [(axis, indices)], outside)
    if outside == "clamp" and indices.size:
        size = x.shape[axis]
        is_signed = indices.dtype.kind == "i"
        indices = np.clip(indices, -size, size - 1) if is_signed else np.minimum(indices, np.uint64(size - 1))
    return picked(x, indices, axis)


def _by_runs(x: TracedArray, indices: np.ndarray[Any, np.dtype[np.int64]], axis: int, few: int) -> TracedArray:
    """Select elements by constant indices: joined slices if there are few runs, else a lookup."""
    runs = _runs(indices, few if _is_whole(x, axis) else MOST_RUNS)
    if runs is None:
        return looked_up(x, [(axis, x.trace.array(indices))], "clamp")
    parts = []
    for start, count, step in runs:
        if step or count < 2:
            parts.append(cut(x, axis, start, count, step or 1))
        else:
            one = cut(x, axis, start, 1)
            parts.append(broadcast(one, (*x.shape[:axis], count, *x.shape[axis + 1 :])))
    return parts[0] if len(parts) == 1 else joined(parts, axis)


def _is_whole(x: TracedArray, axis: int) -> bool:
    """Whether an axis supports lookups: every piece covers it by one factor."""
    own = [(piece.start[axis], [f[1:] for f in piece.factors if f.axis == axis]) for piece in x.value.pieces]
    return all(not start and factors == [(x.shape[axis], 1)] for start, factors in own)


def _runs(indices: np.ndarray[Any, np.dtype[np.int64]], few: int) -> list[tuple[int, int, int]] | None:
    """Divide indices into runs of start, count and step; None if there are more than `few`."""
    if not indices.size:
        return [(0, 0, 1)]
    steps = np.diff(indices)
    runs: list[tuple[int, int, int]] = []
    at = 0
    while at < indices.size:
        if len(runs) == few:
            return None
        step = int(steps[at]) if at < steps.size else 1
        same = np.flatnonzero(steps[at:] != step)
        count = (int(same[0]) if same.size else steps.size - at) + 1
        runs.append((int(indices[at]), count, step))
        at += count
    return runs


def looked_up(x: TracedArray, picks: Sequence[tuple[int, TracedArray]], outside: Outside = "refuse") -> TracedArray:
    """Select elements by one index along each of several axes; all indices have the same shape.

    Raises:
        FuseError: the indices' dtype is not supported, or an axis is empty.
    """
    shape = picks[0][1].shape
    count = picks[0][1].count
    for axis, indices in picks:
        check_looked_up(indices, outside)
        if not x.shape[axis] and count:
            raise broken(f"axis {axis} of {x!r} is empty, but there are indices", FuseIndexError)
    if not count:
        gone = {axis for axis, _ in picks[1:]}
        sizes = [size for k, size in enumerate(x.shape) if k not in gone]
        sizes[picks[0][0] : picks[0][0] + 1] = shape
        return x.made(Value(tuple(sizes), x.itemsize, ()))
    values = [(axis, indices.value, indices.element.name) for axis, indices in picks]
    return x.made(x.trace.composer.pick_points(x.value, values, outside))


def along(x: TracedArray, indices: TracedArray, axis: int, outside: Outside) -> TracedArray:
    """Like numpy.take_along_axis, for shapes that are equal except along the axis."""
    check_looked_up(indices, outside)
    if not indices.count:
        return x.made(Value(indices.shape, x.itemsize, ()))
    if not x.shape[axis]:
        raise broken(f"axis {axis} of {x!r} is empty, but there are indices", FuseIndexError)
    return x.made(x.trace.composer.pick_along(x.value, indices.value, indices.element.name, axis, outside))


def check_looked_up(indices: TracedArray, outside: str) -> None:
    """Check that indices can be looked up.

    Raises:
        FuseError: the dtype is not supported, or the indices would move before they are checked.
    """
    dtype = indices.element
    if dtype not in INDEX_DTYPES or not dtype.isnative:
        names = "int32, int64, uint32 or uint64 in native byte order"
        raise broken(f"indices among the arguments must be {names}, not {dtype}", FuseIndexError)
    if outside == "clamp":
        return
    for piece in indices.value.pieces:
        source = piece.source
        if isinstance(source, Fill):
            continue
        if any(operand >= SCRATCH for operand in (source.operand, *(e.operand for e in every_lookup(source.lookups)))):
            hint = f"pass them as an argument, or to {CLAMPING}, which clamps"
            raise broken(f"indices are checked before anything moves, but these would have to move first: {hint}")
