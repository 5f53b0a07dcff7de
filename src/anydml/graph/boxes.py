"""Values as sources and destinations of moves: single accesses, axes aligned to a box, insertion into another value."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.graph.reinterpret import refine
from anydml.moves.move import Access, Fill
from anydml.moves.pieces import Factor, NotComposableError, Piece, on_strides, tidy
from anydml.moves.value import Value

Sizes = tuple[int, ...]


def single_access(value: Value) -> Access | None:
    """Return the one access that reads a value, with one stride per axis, or None."""
    if len(value.pieces) != 1:
        return None
    start, factors, source = tidy(value.pieces[0])
    if isinstance(source, Fill) or any(start):
        return None
    factor_of = {}
    for k, (axis, size, step) in enumerate(factors):
        if size > 1:
            if step != 1 or size != value.sizes[axis]:
                return None
            factor_of[axis] = k
    if any(size > 1 and axis not in factor_of for axis, size in enumerate(value.sizes)):
        return None
    axes = range(len(value.sizes))
    return on_strides(
        source, lambda strides: (0, tuple(strides[factor_of[axis]] if axis in factor_of else 0 for axis in axes))
    )


def boxed(sizes: Sizes, access: Access, element_size: int) -> Value:
    """Return a value that is read by one access."""
    factors = tuple(Factor(axis, size, 1) for axis, size in enumerate(sizes))
    return Value(sizes, element_size, (Piece((0,) * len(sizes), factors, access),))


def contiguous_run(along: list[tuple[int, int]], box: Sizes, steps: Sequence[int]) -> tuple[list[int], int, int]:
    """Merge the dimensions of a box that step along one axis into one run.

    Args:
        along: absolute step and number of each dimension, largest step first.
        box: sizes of the box.
        steps: signed steps, by dimension of the box.

    Returns:
        The numbers of the dimensions, outermost first, and the run's length and step.

    Raises:
        NotComposableError: they do not form one run.
    """
    if not along:
        return [], 1, 1
    length, least = 1, along[-1][0]
    for step, d in reversed(along):
        if step != least * length or (steps[d] < 0 and len(along) > 1):
            raise NotComposableError("several dimensions step along one of its axes")
        length *= box[d]
    d = along[-1][1]
    return [d for _, d in along], length, steps[d]


def align_to_box(value: Value, labels: list[int], box: Sizes) -> Value:
    """Permute and broadcast a value to a box.

    Args:
        value: its last axis remains the last.
        labels: the box's dimension for each other axis; for axes with the same one, the diagonal is taken. Modified.
        box: sizes of the box.
    """
    for place in reversed(range(len(labels))):
        first = labels.index(labels[place])
        if first != place:
            value = value.diagonal(first, place)
            del labels[place]
    order = sorted(range(len(labels)), key=lambda k: labels[k])
    last = value.sizes[-1]
    value = value.permute([*order, len(labels)])
    value = value.reshape((*(n if d in labels else 1 for d, n in enumerate(box)), last))
    return value.broadcast((*box, last))


def insert(value: Value, part: Value, start: Sizes, steps: Sequence[Sizes]) -> Value:
    """Add the pieces of `part` to a value.

    Args:
        value: a value whose last axis has the bytes of an element.
        part: a value with such an axis, too.
        start: coordinates in `value` of the first element of `part`.
        steps: for each other axis of `part`, its steps along the axes of `value`, of which at most one is not 0.
    """
    size = min(value.element_size, part.element_size)
    value, part = refine(value, size), refine(part, size)
    first, forward = [*start], [*steps]
    rank = len(part.sizes)
    for d, along in enumerate(steps):
        if any(step < 0 for step in along):
            starts = [part.sizes[d] - 1 if k == d else 0 for k in range(rank)]
            part = part.slice(starts, part.sizes, [-1 if k == d else 1 for k in range(rank)])
            first = [at + (part.sizes[d] - 1) * step for at, step in zip(first, along, strict=True)]
            forward[d] = tuple(-step for step in along)
    axes = [next((axis for axis, step in enumerate(along) if step), 0) for along in forward] + [len(value.sizes) - 1]
    scale = [max(along, default=0) for along in forward] + [1]
    pieces = []
    for piece in part.pieces:
        at = [*first, 0]
        for d, coordinate in enumerate(piece.start):
            at[axes[d]] += coordinate * scale[d]
        factors = tuple(Factor(axes[f.axis], f.size, f.step * scale[f.axis] or 1) for f in piece.factors)
        pieces.append(Piece(tuple(at), factors, piece.source))
    return Value(value.sizes, size, (*value.pieces, *pieces))
