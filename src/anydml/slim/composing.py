"""Composition of movement nodes without running the graph: only indices that the model contains are known."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.moves.accesses import operand_of
from anydml.moves.composer import Composer
from anydml.moves.index_runs import runs_of, select_runs
from anydml.moves.move import OutOfRange
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Array, Tensor
from anydml.onnx.lowering import ShapeContext
from anydml.proving.operator_calls import OPEN_ENDS
from anydml.slim.pieces import Digit, Window, sliced_axes

MAX_PIECES = 256
"""Maximum number of pieces of a composed value."""

MAX_PICKED = 1 << 12
"""Maximum number of pieces that are sliced for one Gather."""


def has_open_end(tensors: Sequence[Tensor | None]) -> bool:
    """Whether runtimes disagree on a Slice: with a negative step and a large end, ONNX's result is empty."""
    bounds = [None if tensor is None or tensor.array is None else tensor.array.tolist() for tensor in tensors[2:5:2]]
    ends, steps = (*bounds, None, None)[:2]
    return any(end in OPEN_ENDS and step < 0 for end, step in zip(ends or (), steps or (), strict=False))


class _Composer(Composer):
    """A composer that never stores a value, and replaces lookups by slices."""

    def __init__(self) -> None:
        super().__init__("slim")
        self._indices: dict[int, Array] = {}

    def indices(self, array: Array) -> Value:
        """Return a value for indices."""
        value = self.constant("indices", array)
        operand = operand_of(value)
        if operand is not None:
            self._indices[operand[0]] = array
        return value

    def store(self, value: Value, reason: str) -> Value:
        """Refuse to store a value."""
        raise NotComposableError(reason)

    def new_scratch(self, value: Value, reason: str) -> tuple[int, tuple[int, ...]]:
        """Refuse a result of which parts are overwritten."""
        raise NotComposableError(reason)

    def pick(self, value: Value, indices: Value, dtype: str, axis: int, outside: OutOfRange = "clamp") -> Value:
        """See `Composer.pick`."""
        operand = operand_of(indices)
        array = None if operand is None else self._indices.get(operand[0])
        if array is None or not array.size:
            raise NotComposableError("its indices are not known")
        flat = array.reshape(-1) % value.sizes[axis]
        sizes = (*value.sizes[:axis], *array.shape, *value.sizes[axis + 1 :])
        digits = _digits(flat)
        sliced = None if digits is None else sliced_axes(value.sizes[axis], int(flat[0]), digits)
        if sliced is not None:
            with contextlib.suppress(NotComposableError):
                return _slice(value, axis, *sliced).reshape(sizes)
        runs = runs_of(flat, MAX_PIECES)
        if runs is None or len(runs) * len(value.pieces) > MAX_PICKED:
            raise NotComposableError("it has too many pieces")
        return select_runs(self, value, axis, runs).reshape(sizes)


def _digits(indices: Array) -> list[Digit] | None:
    """Return indices as an arithmetic sequence with several factors; None for other indices."""
    digits: list[Digit] = []
    step, firsts = 1, indices
    while firsts.size > 1:
        gaps = np.diff(firsts)
        breaks = np.flatnonzero(gaps != gaps[0])
        count = int(breaks[0]) + 1 if breaks.size else firsts.size
        if not gaps[0] or firsts.size % count or (np.diff(firsts.reshape(-1, count)) != gaps[0]).any():
            return None
        digits.insert(0, Digit(count, step, int(gaps[0])))
        step, firsts = step * count, firsts[::count]
    return digits


def _slice(value: Value, axis: int, axes: Sequence[int], window: Window, perm: Sequence[int]) -> Value:
    """Split an axis, and slice and transpose its parts."""
    split = value.reshape((*value.sizes[:axis], *axes, *value.sizes[axis + 1 :]))
    all_windows = [(0, size, 1) for size in split.sizes]
    end = axis + len(axes)
    parts = [*all_windows[:axis], *window, *all_windows[end:]]
    sliced = split.slice(*([part[k] for part in parts] for k in range(3)))
    return sliced.permute([*range(axis), *(axis + k for k in perm), *range(end, len(all_windows))])


class CompositionContext(ShapeContext):
    """Lowers nodes by composing the values of their inputs."""

    composer: _Composer

    def __init__(self) -> None:
        super().__init__()
        self.composer = _Composer()

    def fetch(self, *tensors: Tensor) -> bool:
        """Return whether all elements are known."""
        return all(tensor.array is not None for tensor in tensors)

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """Return the inputs' values, which for indices must be known."""
        return [self._value(tensor) for tensor in tensors]

    def _value(self, tensor: Tensor) -> Value:
        if tensor.value is not None:
            return tensor.value
        if tensor.array is None:
            raise NotComposableError("its indices are not known")
        return self.composer.indices(tensor.array)

    def source(self, array: Array) -> Value:
        """Return a value for indices that the node creates."""
        return self.composer.indices(array)

    def pattern(self, element: Array) -> bytes:
        """See `LoweringContext.pattern`."""
        return element.reshape(1).tobytes()

    def _record_result(self, node: Node, value: Value, dtype: np.dtype[Any]) -> Tensor:
        return Tensor(dtype, value.sizes, None, value)
