"""Rules of Slice, Split and Gather."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anydml.proving.movement_terms import Mover
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.sizes import Size, axis_of, lower_bound
from anydml.proving.terms import Term, vector_of
from anydml.proving.windows import Window


def slice_rule(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the terms of a Slice; None if its bounds are not the same expressions for all sizes."""
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    if call.version < 10:
        bounds = [call.get("starts"), call.get("ends"), call.get("axes"), None]
    else:
        bounds = [vector_of(call.term(k)) for k in range(1, 5)]
        if any(call.term(k) is not None and bounds[k - 1] is None for k in range(1, 5)):
            return None
    starts, ends, axes, steps = bounds
    if starts is None or ends is None or len({len(bound) for bound in bounds if bound is not None}) > 1:
        return None
    windows = dict[int, Window]()
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        named_axis = axes[k] if axes else k
        axis = axis_of(named_axis, len(term.shape)) if isinstance(named_axis, int) else None
        window = None if axis is None else _window(mover, axis, term.shape[axis], start, end, steps[k] if steps else 1)
        if axis is None or window is None or axis in windows:
            return None
        windows[axis] = window
    return [mover.slice(term, [*windows.values()])]


def _window(mover: Mover, axis: int, size: Size, start: Size, end: Size, step: Size) -> Window | None:
    """Return a Slice's window along an axis; None if it is not the same expression for all sizes."""
    if not isinstance(step, int) or step == 0:
        return None
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        if step < 0 and start < -size:
            # ONNX's document and its reference evaluator differ: the result has the first element, or is empty.
            return None
        coordinates = range(size)[start:end:step]
        return axis, coordinates.start if len(coordinates) else 0, len(coordinates), step
    if step != 1:
        return None
    first, last = (_clamp(mover, bound, size) for bound in (start, end))
    if first is None or last is None or not mover.terms.bounds.is_natural(last - first):
        return None
    return axis, first, last - first, 1


def _clamp(mover: Mover, bound: Size, size: Size) -> Size | None:
    """Return a start or end of a Slice as a coordinate from 0 to the size; None if unknown."""
    if isinstance(bound, int) and bound >= 2**31 - 1:
        return size
    is_natural = mover.terms.bounds.is_natural
    if not is_natural(bound):
        if not is_natural(-bound - 1):
            return None
        bound = bound + size
        if not is_natural(bound):
            return None
    if is_natural(bound - size):
        return size
    if is_natural(size - bound):
        return bound
    if lower_bound(size - bound) is None and isinstance(size, int):
        # Tables of positions are cut to the length of a text, which is at most the table's.
        mover.assumed[bound] = min(size, mover.assumed.get(bound, size))
        return bound
    return None


def split_rule(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the terms of a Split; None if its sizes are not the same expressions for all sizes."""
    term = call.term(0)
    if term is None or not term.shape:
        return None
    axis, count = axis_of(call.get("axis", 0), len(term.shape)), len(call.proto.output)
    if axis is None:
        return None
    size = term.shape[axis]
    sizes = call.get("split") if call.version < 13 else vector_of(call.term(1))
    if sizes is not None:
        lengths = list(sizes)
    elif call.term(1) is not None or not isinstance(size, int):
        return None
    else:
        part_size = -(-size // count)
        lengths = [part_size] * (count - 1) + [size - part_size * (count - 1)]
    if not all(map(mover.terms.bounds.is_natural, lengths)):
        return None
    if len(lengths) != count or sum(lengths[1:], lengths[0]) != size:
        return None
    parts, first = list[Term](), 0
    for length in lengths:
        parts.append(mover.slice(term, [(axis, first, length, 1)]))
        first = first + length
    return parts


def take_rule(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the terms of a Gather; None if its indices are not the same expressions for all sizes."""
    term, indices = call.term(0), call.term(1)
    if term is None or not term.shape or indices is None or indices.shape is None:
        return None
    axis = axis_of(call.get("axis", 0), len(term.shape))
    if axis is None or not _are_inside(mover, indices, term.shape[axis]):
        return None
    array = term.array
    if term.kind == "sizes" and array is not None and indices.is_constant and term.dtype is not None:
        return [mover.terms.integers(np.asarray(array.take(np.asarray(indices.array), axis), object), term.dtype)]
    return [mover.take(term, indices, axis)]


def _are_inside(mover: Mover, indices: Term, size: Size) -> bool:
    """Whether indices are in range for all sizes of an axis; true for indices that are not constant."""
    array = indices.array
    if array is None or array.dtype == object or not array.size:
        return True
    ends = size - int(array.max()) - 1, size + int(array.min())
    return all(map(mover.terms.bounds.is_natural, ends))
