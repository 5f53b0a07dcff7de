"""Nodes that compose what they move by forms, with indices that are known."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anydml.moves.compose import Composer, operand_of
from anydml.moves.move import Outside
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value, join
from anydml.onnx.graph import Node
from anydml.onnx.lowering import ShapeContext, Write
from anydml.onnx.values import Array, Tensor

MOST_PIECES = 256
"""Of a form."""

Taken = tuple[int, int, int]
"""Where a slice begins, how many it takes, and how far apart."""


class _Composer(Composer):
    """One that stores nothing in between, and knows the indices of a Gather."""

    def __init__(self) -> None:
        super().__init__("slim")
        self._indices: dict[int, Array] = {}

    def known(self, array: Array) -> Value:
        """Indices."""
        value = self.constant("indices", array)
        found = operand_of(value)
        if found is not None:
            self._indices[found[0]] = array
        return value

    def stored(self, value: Value, reason: str) -> Value:
        """EmptyOptional is."""
        raise NotComposableError(reason)

    def moved(self, *_: Any, **__: Any) -> list[Value]:
        """EmptyOptional is."""
        raise NotComposableError("it is written in several steps")

    def overwritten(self, *_: Any) -> Value:
        """EmptyOptional is."""
        raise NotComposableError("it is written over")

    def pick(self, value: Value, indices: Value, dtype: str, axis: int, outside: Outside = "clamp") -> Value:
        """By known indices: slices, one after the other."""
        found = operand_of(indices)
        array = None if found is None else self._indices.get(found[0])
        if array is None or not array.size:
            raise NotComposableError("its indices are not known")
        size, parts, pieces = value.sizes[axis], [], 0
        box = _box(array.reshape(-1) % size, size)
        if box is not None:
            with contextlib.suppress(NotComposableError):
                return _taken(value, axis, *box).reshape((*value.sizes[:axis], *array.shape, *value.sizes[axis + 1 :]))
        for start, count, step in _rows((array.reshape(-1) % size).tolist()):
            starts, sizes, steps = [0] * len(value.sizes), [*value.sizes], [1] * len(value.sizes)
            starts[axis], sizes[axis], steps[axis] = start, count, step
            parts.append(value.slice(starts, sizes, steps))
            pieces += len(parts[-1].pieces)
            if pieces > MOST_PIECES:
                raise NotComposableError("it has too many pieces")
        return join(parts, axis).reshape((*value.sizes[:axis], *array.shape, *value.sizes[axis + 1 :]))


def _taken(value: Value, axis: int, cut: Sequence[int], taken: Sequence[Taken], order: Sequence[int]) -> Value:
    """A box of an axis."""
    fine = value.reshape((*value.sizes[:axis], *cut, *value.sizes[axis + 1 :]))
    whole = [(0, size, 1) for size in fine.sizes]
    starts, sizes, steps = zip(*whole[:axis], *taken, *whole[axis + len(cut) :], strict=True)
    axes = [*range(axis), *(axis + k for k in order), *range(axis + len(cut), len(whole))]
    return fine.slice(starts, sizes, steps).permute(axes)


def _box(indices: Array, size: int) -> tuple[list[int], list[Taken], list[int]] | None:
    """How an axis is cut, what is taken of each part, and in which order; None where indices are no box of it."""
    digits: list[tuple[int, int]] = []
    while indices.size > 1:
        gaps = np.diff(indices)
        others = np.flatnonzero(gaps != gaps[0])
        count = int(others[0]) + 1 if others.size else indices.size
        if indices.size % count or not gaps[0]:
            return None
        rows = indices.reshape(-1, count)
        if (np.diff(rows) != gaps[0]).any():
            return None
        digits.insert(0, (count, int(gaps[0])))
        indices = rows[:, 0]
    ordered = sorted(range(len(digits)), key=lambda k: -abs(digits[k][1]))
    rest = int(indices[0]) + sum((count - 1) * step for count, step in digits if step < 0)
    cut, taken, bound = list[int](), list[Taken](), size
    for k in ordered:
        count, step = digits[k]
        first, rest = divmod(rest, abs(step))
        if bound % step or first + count > bound // abs(step):
            return None
        cut.append(bound // abs(step))
        taken.append((first, count, 1) if step > 0 else (first + count - 1, count, -1))
        bound = abs(step)
    cut.append(bound)
    taken.append((rest, 1, 1))
    return cut, taken, [*(ordered.index(k) for k in range(len(digits))), len(digits)]


def _rows(indices: Sequence[int]) -> Iterable[tuple[int, int, int]]:
    """Indices as few rows: first, count, step."""
    first = 0
    while first < len(indices):
        end, step = first + 1, 1
        if end < len(indices) and indices[end] != indices[first]:
            step = indices[end] - indices[first]
            while end < len(indices) and indices[end] - indices[end - 1] == step:
                end += 1
            if end - first == 2 and abs(step) != 1:
                end, step = first + 1, 1
        yield indices[first], end - first, step
        first = end


class Composing(ShapeContext):
    """Nodes get values by forms, and what they make of them is composed."""

    composer: _Composer

    def __init__(self) -> None:
        super().__init__()
        self.composer = _Composer()

    def stored(self, *tensors: Tensor) -> bool:
        """Whether all are known."""
        return all(tensor.array is not None for tensor in tensors)

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """Forms, and indices."""
        return [self._value(tensor) for tensor in tensors]

    def _value(self, tensor: Tensor) -> Value:
        if tensor.value is not None:
            return tensor.value
        if tensor.array is None:
            raise NotComposableError("its indices are not known")
        return self.composer.known(tensor.array)

    def source(self, array: Array) -> Value:
        """Indices that a node has made."""
        return self.composer.known(array)

    def pattern(self, element: Array) -> bytes:
        """An element's bytes."""
        return element.reshape(1).tobytes()

    def _described(self, node: Node, value: Value, dtype: np.dtype[Any], write: Write | None) -> Tensor:
        if write is not None:
            raise NotComposableError("it is written over")
        return Tensor(dtype, value.sizes, None, value)
