"""Tensors that a plan makes: values over the tensors of a checkpoint, which are described and not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anydml.files.json_path import JsonPath, show
from anydml.moves import Access
from anydml.moves.compose import Composer
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.stores.planning.copies import FEW


@dataclass(frozen=True, slots=True)
class ComposedTensor:
    """A tensor that a plan makes."""

    value: Value
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, by dimension."""
        return self.value.sizes


ComposedTensors = dict[str, ComposedTensor]


def put(made: ComposedTensors, name: str, tensor: ComposedTensor, place: JsonPath) -> None:
    """Add a tensor.

    Raises:
        ModelError: another one has this name.
    """
    if name in made:
        raise place.error(f"makes a second tensor of the name {show(name)}")
    made[name] = tensor


def sliced(composer: Composer, value: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """Elements along an axis, from `start` on; all elements of the other axes."""
    rank = len(value.sizes)
    starts, sizes, steps = [0] * rank, [*value.sizes], [1] * rank
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return composer.slice(value, starts, sizes, steps)


def picked(composer: Composer, name: str, value: Value, axis: int, indices: Sequence[int]) -> Value:
    """The elements of a value at indices of an axis: joined slices of runs, or a lookup where runs are many.

    Args:
        composer: that made the value.
        name: of the indices.
        value: to pick from.
        axis: of the value.
        indices: not negative; at least one.
    """
    numbers = np.array(indices, np.int64)
    ends = np.flatnonzero(np.append(np.diff(numbers) != 1, True)) + 1
    if len(ends) > FEW and _can_be_looked_up(value, axis, len(numbers)):
        return composer.pick(value, composer.constant(name, numbers), "int64", axis)
    parts, start = [], 0
    for end in ends.tolist():
        parts.append(sliced(composer, value, axis, int(numbers[start]), end - start))
        start = end
    return composer.join(parts, axis)


def _can_be_looked_up(value: Value, axis: int, count: int) -> bool:
    """Whether a lookup needs no scratch, and does not depend on another lookup."""
    if any(isinstance(piece.source, Access) and piece.source.lookups for piece in value.pieces):
        return False
    try:
        value.pick(Value.stored(0, (count,), (8,), 8), "int64", axis)
    except NotComposableError:
        return False
    return True
