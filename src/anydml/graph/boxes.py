"""Values over the box of a move: where they lie, in which order their axes are, and what they are put into."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.graph.coordinates import remapped
from anydml.graph.reinterpret import refined
from anydml.moves.move import Access, Fill
from anydml.moves.pieces import Factor, NotComposableError, Piece, tidy
from anydml.moves.value import Value

Sizes = tuple[int, ...]


def whole(value: Value) -> Access | None:
    """Where a value lies if it lies in one place, by a stride per axis; else None."""
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
    return remapped(source, lambda strides: (0, tuple(strides[places[k]] if k in places else 0 for k in ranks)))


def boxed(sizes: Sizes, access: Access, element_size: int) -> Value:
    """A value that is read by one access."""
    factors = tuple(Factor(axis, size, 1) for axis, size in enumerate(sizes))
    return Value(sizes, element_size, (Piece((0,) * len(sizes), factors, access),))


def nested(along: list[tuple[int, int]], box: Sizes, steps: Sequence[int]) -> tuple[list[int], int, int]:
    """Dimensions of a box that make up a run along an axis, outermost first, its length, and its step."""
    if not along:
        return [], 1, 1
    length, least = 1, along[-1][0]
    for step, d in reversed(along):
        if step != least * length or (steps[d] < 0 and len(along) > 1):
            raise NotComposableError("several dimensions go along one of its axes")
        length *= box[d]
    d = along[-1][1]
    return [d for _, d in along], length, steps[d]


def over_box(value: Value, labels: list[int], box: Sizes) -> Value:
    """A value whose axes are dimensions of a box, some of them twice or not at all, over the box."""
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


def put_into(value: Value, part: Value, place: tuple[Sizes, list[Sizes]]) -> Value:
    """A value with another one put into it: pieces of a box, along axes of the first."""
    size = min(value.element_size, part.element_size)
    value, part = refined(value, size), refined(part, size)
    start, steps = [*place[0]], [*place[1]]
    rank = len(part.sizes)
    last = len(value.sizes) - 1
    for d, by in enumerate(steps):
        if any(step < 0 for step in by):
            turned = [part.sizes[d] - 1 if k == d else 0 for k in range(rank)]
            part = part.slice(turned, part.sizes, [-1 if k == d else 1 for k in range(rank)])
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
