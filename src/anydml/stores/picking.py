"""Elements along an axis by a list of indices that a layout gives: slices of runs, or a lookup where those are many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anydml.moves import Access
from anydml.moves.compose import Composer
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.stores.rows import FEW


def picked(composer: Composer, name: str, value: Value, axis: int, indices: Sequence[int]) -> Value:
    """``value`` with the elements at indices of an axis, in their order.

    Args:
        composer: that made the value.
        name: what the indices are called.
        value: what is picked from.
        axis: of it.
        indices: from 0 on; at least one.
    """
    numbers = np.array(indices, np.int64)
    ends = np.flatnonzero(np.append(np.diff(numbers) != 1, True)) + 1
    if len(ends) > FEW and _can_be_looked_up(value, axis, len(numbers)):
        return composer.pick(value, composer.constant(name, numbers), "int64", axis)
    parts, start = [], 0
    for end in ends.tolist():
        starts, sizes = [0] * len(value.sizes), [*value.sizes]
        starts[axis], sizes[axis] = int(numbers[start]), end - start
        parts.append(composer.slice(value, starts, sizes, [1] * len(sizes)))
        start = end
    return composer.join(parts, axis)


def _can_be_looked_up(value: Value, axis: int, count: int) -> bool:
    """Whether a lookup makes no intermediate array, and depends on no other lookup."""
    if any(isinstance(piece.source, Access) and piece.source.lookups for piece in value.pieces):
        return False
    try:
        value.pick(Value.stored(0, (count,), (8,), 8), "int64", axis)
    except NotComposableError:
        return False
    return True
