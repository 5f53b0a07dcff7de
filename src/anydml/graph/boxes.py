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
    places = {}
    for k, (axis, size, step) in enumerate(factors):
        if size > 1:
            if step != 1 or size != value.sizes[axis]:
                return None
            places[axis] = k
    if any(size > 1 and axis not in places for axis, size in enumerate(value.sizes)):
        return None
    ranks = range(len(value.sizes))
    return on_strides(source, lambda strides: (0, tuple(strides[places[k]] if k in places else 0 for k in ranks)))


def boxed(sizes: Sizes, access: Access, element_size: int) -> Value:
    """Return a value that is read by one access."""
    factors = tuple(Factor(axis, size, 1) for axis, size in enumerate(sizes))
    return Value(sizes, element_size, (Piece((0,) * len(sizes), factors, access),))


def contiguous_run(along: list[tuple[int, int]], box: Sizes, steps: Sequence[int]) -> tuple[list[int], int, int]:
    """Return the dimensions of a box that step along one axis, outermost first, and the run's length and step."""
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
    """Permute and broadcast a value to a box. `labels` has the box's dimension of each axis, not always distinct."""
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


def insert(value: Value, part: Value, place: tuple[Sizes, list[Sizes]]) -> Value:
    """Add the pieces of `part` to a value. `place` is the start, and each axis' steps along the value's axes."""
    size = min(value.element_size, part.element_size)
    value, part = refine(value, size), refine(part, size)
    start, steps = [*place[0]], [*place[1]]
    rank = len(part.sizes)
    last = len(value.sizes) - 1
    for d, by in enumerate(steps):
        if any(step < 0 for step in by):
            last_first = [part.sizes[d] - 1 if k == d else 0 for k in range(rank)]
            part = part.slice(last_first, part.sizes, [-1 if k == d else 1 for k in range(rank)])
            start = [at + (part.sizes[d] - 1) * step for at, step in zip(start, by, strict=True)]
            steps[d] = tuple(-step for step in by)
    axes = [next((axis for axis, step in enumerate(by) if step), 0) for by in steps] + [last]
    scale = [max(by, default=0) for by in steps] + [1]
    pieces = []
    for piece in part.pieces:
        at = [*start, 0]
        for d, coordinate in enumerate(piece.start):
            at[axes[d]] += coordinate * scale[d]
        factors = tuple(Factor(axes[f.axis], f.size, f.step * scale[f.axis] or 1) for f in piece.factors)
        pieces.append(Piece(tuple(at), factors, piece.source))
    return Value(value.sizes, size, (*value.pieces, *pieces))
