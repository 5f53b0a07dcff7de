"""What is known of operators: the terms of nodes that move, or that are equal to others for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anydml.onnx.budget import Budget
from anydml.onnx.tensors import numpy_type, to_array
from anydml.proving.calls import Call
from anydml.proving.moving import Mover, Window
from anydml.proving.sizes import Size, Sizes, axis_of, broadcast, differ, divided, fit, least, product
from anydml.proving.terms import Term, elements_of

Rule = Callable[[Mover, Call], Sequence[Term] | None]
"""Returns the terms of a node's outputs; None where nothing more is known of it than of any other."""


def _identity(mover: Mover, call: Call) -> Sequence[Term] | None:
    return [term] if (term := call.term(0)) is not None else None


def _cast(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    return [term] if term is not None and term.dtype == numpy_type(call.get("to")) else None


def _dropout(mover: Mover, call: Call) -> Sequence[Term] | None:
    """Return the input, unless the mask is an output or the node may be for training."""
    is_inference = call.version >= 7 and (call.version < 12 or call.term(2) is None or call.known(2) is False)
    return _identity(mover, call) if is_inference and len([*filter(None, call.proto.output)]) == 1 else None


def _shape(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    rank = len(term.shape)
    first, end = call.get("start", 0), call.get("end", rank)
    found = np.empty(len(term.shape[slice(first, end)]), object)
    found[:] = term.shape[slice(first, end)]
    return [mover.terms.known(found, np.dtype(np.int64))]


def _size(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    found = np.empty((), object)
    found[()] = product(term.shape)
    return [mover.terms.known(found, np.dtype(np.int64))]


def _reshape(mover: Mover, call: Call) -> Sequence[Term] | None:
    term, given = call.term(0), elements_of(call.term(1))
    if term is None or term.shape is None or given is None or call.version < 5:
        return None
    shape: list[Size] = []
    open_axis = None
    for axis, size in enumerate(given.tolist()):
        old = term.shape[axis] if axis < len(term.shape) else None
        low = least(size)
        if size == -1:
            open_axis = axis
            shape.append(1)
        elif size == 0 and not call.get("allowzero", 0):
            if old is None:
                return None
            shape.append(old)
        elif size == old or (low is not None and low > 0) or (size == 0 and call.get("allowzero", 0)):
            shape.append(size)
        else:
            # It may be 0, and then stand for another size.
            return None
    if open_axis is not None:
        rest = _quotient(term.shape, shape)
        if rest is None:
            return None
        shape[open_axis] = rest
    return _reshaped(mover, term, shape)


def _reshaped(mover: Mover, term: Term, shape: Sequence[Size]) -> Sequence[Term] | None:
    """Return a term in another shape; None if that may have another number of elements."""
    return [mover.reshape(term, tuple(shape))] if product(shape) == product(term.sizes) else None


def _quotient(sizes: Sizes, others: Sequence[Size]) -> Size | None:
    """Return the quotient of two products; None if it is no polynomial."""
    above, below = [*sizes], list[Size]()
    for size in others:
        if size in above:
            above.remove(size)
        else:
            below.append(size)
    found: Size | None = product(above)
    for size in below:
        found = None if found is None else divided(found, size)
    return found


def _axes(call: Call, k: int, rank: int) -> list[int] | None:
    """Return the axes that an attribute or input k names, sorted; None if they are not known or there are none."""
    given = call.get("axes") if call.get("axes") is not None else call.known(k)
    axes = [] if given is None else [axis_of(int(axis), rank) for axis in np.atleast_1d(given)]
    known = sorted(axis for axis in axes if axis is not None)
    return None if given is None or len({*known}) < len(axes) else known


def _squeeze(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    axes = _axes(call, 1, max(1, len(term.shape)))
    if axes is None:
        if call.term(1) is not None or any(size != 1 and not differ(size, 1) for size in term.shape):
            return None
        axes = [axis for axis, size in enumerate(term.shape) if size == 1]
    return _reshaped(mover, term, [size for axis, size in enumerate(term.shape) if axis not in axes])


def _unsqueeze(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    given = call.get("axes") if call.get("axes") is not None else call.known(1)
    if term is None or term.shape is None or given is None:
        return None
    rank = len(term.shape) + len(np.atleast_1d(given))
    axes = _axes(call, 1, rank)
    if axes is None:
        return None
    left = iter(term.shape)
    return _reshaped(mover, term, [1 if axis in axes else next(left) for axis in range(rank)])


def _flatten(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    axis = call.get("axis", 1)
    axis = axis + len(term.shape) if axis < 0 else axis
    if not 0 <= axis <= len(term.shape):
        return None
    return _reshaped(mover, term, [product(term.shape[:axis]), product(term.shape[axis:])])


def _transpose(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    perm = call.get("perm") or range(len(term.shape))[::-1]
    return [mover.transpose(term, perm)] if sorted(perm) == [*range(len(term.shape))] else None


def _slice(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    if call.version < 10:
        given = [call.get("starts"), call.get("ends"), call.get("axes"), None]
    else:
        arrays = [elements_of(call.term(k)) for k in range(1, 5)]
        if any(call.term(k) is not None and arrays[k - 1] is None for k in range(1, 5)):
            return None
        given = [None if array is None else array.tolist() for array in arrays]
    starts, ends, axes, steps = given
    if starts is None or ends is None or len({len(each) for each in given if each is not None}) > 1:
        return None
    windows = dict[int, Window]()
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        own = axes[k] if axes else k
        axis = axis_of(own, len(term.shape)) if isinstance(own, int) else None
        window = None if axis is None else _window(axis, term.shape[axis], start, end, steps[k] if steps else 1)
        if axis is None or window is None or axis in windows:
            return None
        windows[axis] = window
    return [mover.slice(term, [*windows.values()])]


def _window(axis: int, size: Size, start: Size, end: Size, step: Size) -> Window | None:
    """Return what a Slice takes along an axis; None if that is not the same expression for all sizes."""
    if not isinstance(step, int) or step == 0:
        return None
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        taken = range(size)[start:end:step]
        return axis, taken.start if len(taken) else 0, len(taken), step
    if step != 1:
        return None
    first, last = (_clamped(each, size) for each in (start, end))
    if first is None or last is None or (low := least(last - first)) is None or low < 0:
        return None
    return axis, first, last - first, 1


def _clamped(place: Size, size: Size) -> Size | None:
    """Return a start or end of a Slice as a coordinate from 0 to the size; None if unknown."""
    if isinstance(place, int) and place >= 2**31 - 1:
        return size
    low = least(place)
    if low is None or low < 0:
        if (least(-place) or 0) < 1:
            return None
        place = place + size
        low = least(place)
    room = least(size - place)
    return place if low is not None and low >= 0 and room is not None and room >= 0 else None


def _split(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or not term.shape:
        return None
    axis, count = axis_of(call.get("axis", 0), len(term.shape)), len(call.proto.output)
    if axis is None:
        return None
    size = term.shape[axis]
    given = call.get("split") if call.version < 13 else elements_of(call.term(1))
    if given is not None:
        lengths = list(given)
    elif call.term(1) is not None or not isinstance(size, int):
        return None
    else:
        each = -(-size // count)
        lengths = [each] * (count - 1) + [size - each * (count - 1)]
    if any((low := least(length)) is None or low < 0 for length in lengths):
        return None
    found, first = list[Term](), 0
    for length in lengths:
        found.append(mover.slice(term, [(axis, first, length, 1)]))
        first = first + length
    return found if len(found) == count and first == size else None


def _concat(mover: Mover, call: Call) -> Sequence[Term] | None:
    terms = [term for term in call.inputs if term is not None and term.shape]
    if len(terms) < len(call.inputs) or not terms or call.version < 4:
        return None
    axis = axis_of(call.get("axis"), len(terms[0].sizes))
    rests = {(term.dtype, len(term.sizes), term.sizes[:axis], term.sizes[(axis or 0) + 1 :]) for term in terms}
    return [mover.concat(terms, axis)] if axis is not None and len(rests) == 1 else None


def _gather(mover: Mover, call: Call) -> Sequence[Term] | None:
    term, indices = call.term(0), call.term(1)
    if term is None or not term.shape or indices is None or indices.shape is None:
        return None
    axis = axis_of(call.get("axis", 0), len(term.shape))
    if axis is None or not _are_inside(indices, term.shape[axis]):
        return None
    array = term.array
    if term.kind == "sizes" and array is not None and indices.is_constant and term.dtype is not None:
        return [mover.terms.known(np.asarray(array.take(np.asarray(indices.array), axis), object), term.dtype)]
    return [mover.gather(term, indices, axis)]


def _are_inside(indices: Term, size: Size) -> bool:
    """Whether constant indices are inside an axis, whatever its size is; those that are no constant must be."""
    array = indices.array
    if array is None or array.dtype == object or not array.size:
        return True
    ends = least(size - int(array.max()) - 1), least(size + int(array.min()))
    return all(end is not None and end >= 0 for end in ends)


def _expand(mover: Mover, call: Call) -> Sequence[Term] | None:
    term, given = call.term(0), elements_of(call.term(1))
    if term is None or term.shape is None or given is None or not _are_sizes(given.tolist()):
        return None
    shape = tuple(given.tolist())
    return [mover.expand(term, broadcast(term.shape, shape))] if fit(term.shape, shape) else None


def _are_sizes(sizes: Sequence[Size]) -> bool:
    """Whether numbers are 0 or more, whatever the names are."""
    return all((low := least(size)) is not None and low >= 0 for size in sizes)


def _constant_of_shape(mover: Mover, call: Call) -> Sequence[Term] | None:
    given, value = elements_of(call.term(0)), call.get("value")
    if given is None or not _are_sizes(given.tolist()):
        return None
    fill = np.zeros((), np.float32) if value is None else to_array(value, Budget()).reshape(())
    return [mover.expand(mover.terms.constant(fill), tuple(given.tolist()))]


def _pad(mover: Mover, call: Call) -> Sequence[Term] | None:
    given = call.get("pads") if call.version < 11 else elements_of(call.term(1))
    is_plain = given is not None and all(isinstance(n, int) and n == 0 for n in given)
    return _identity(mover, call) if is_plain else None


def _tile(mover: Mover, call: Call) -> Sequence[Term] | None:
    term, given = call.term(0), elements_of(call.term(1))
    if term is None or term.shape is None or given is None or term.array is not None or call.version < 6:
        return None
    times = given.tolist()
    if len(times) != len(term.shape) or not _are_sizes(times):
        return None
    if all(n == 1 for n in times):
        return [term]
    shape = tuple(size * n for size, n in zip(term.shape, times, strict=True))
    if all(n == 1 or size == 1 for size, n in zip(term.shape, times, strict=True)):
        return [mover.expand(term, shape)]
    return [mover.terms.make("tile", [term], tuple(times), term.dtype, shape)]


RULES: dict[tuple[str, str], Rule] = {
    ("", operator): rule
    for operator, rule in {
        "Cast": _cast, "Concat": _concat, "ConstantOfShape": _constant_of_shape, "Dropout": _dropout,
        "Expand": _expand, "Flatten": _flatten, "Gather": _gather, "Identity": _identity, "Pad": _pad,
        "Reshape": _reshape, "Shape": _shape, "Size": _size, "Slice": _slice, "Split": _split, "Squeeze": _squeeze,
        "Tile": _tile, "Transpose": _transpose, "Unsqueeze": _unsqueeze,
    }.items()
}  # fmt: skip
"""Rules of movement and shapes by domain and operator."""
