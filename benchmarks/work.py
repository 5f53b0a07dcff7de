"""One case made real: inputs, outputs that everybody writes to, and what is expected in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.blocks import Block
from benchmarks.grid import Case

Array = np.ndarray[Any, Any]
Run = Callable[[], object]


class Work:
    """Inputs, touched outputs, and what is expected in them."""

    def __init__(self, case: Case, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.case = case
        drawn = _inputs(case, rng)
        self.source = Block([(array.shape, array.dtype) for array in drawn], case.bytes // 2)
        self.inputs = self.source.arrays
        for array, values in zip(self.inputs, drawn, strict=True):
            array[...] = values
        shapes = [case.shape] if case.fresh else case.output_shapes
        self.destination = Block([(shape, np.dtype(case.dtype)) for shape in shapes], case.bytes // 2)
        self.outputs = self.destination.arrays
        self.expected = _expected(case, self.inputs)
        self._rng = rng

    def refresh(self) -> None:
        """New sizes and outputs for cases that have them; called before every call, not timed."""
        if not self.case.fresh:
            return
        total = sum(self.case.parts)
        cuts = sorted(self._rng.choice(np.arange(1, total), len(self.case.parts) - 1, replace=False).tolist())
        self.sizes = np.diff([0, *cuts, total])
        flat, rows = self.destination.arrays[0].reshape(-1), self.case.shape[0]
        starts = [0, *cuts, total]
        pieces = [flat[a * rows : b * rows].reshape(rows, b - a) for a, b in itertools.pairwise(starts)]
        self.outputs = pieces
        self.expected = [self.inputs[0][:, a:b] for a, b in itertools.pairwise(starts)]

    def clear(self) -> None:
        """Wipe the outputs, so that the next check means something."""
        for output in self.outputs:
            output.reshape(-1).view(np.uint8)[...] = 0xA5

    def is_right(self, results: object) -> bool:
        """Whether the outputs (or returned arrays) hold what NumPy's own indexing gives, bit for bit."""
        outputs = results if isinstance(results, list) else self.outputs
        return all(
            np.array_equal(_bits(output), _bits(expected))
            for output, expected in zip(outputs, self.expected, strict=True)
        )


def _bits(array: Any) -> Array:
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.itemsize}")


def _inputs(case: Case, rng: np.random.Generator) -> list[Array]:
    def filled(shape: tuple[int, ...]) -> Array:
        if case.dtype == "float32":
            return rng.random(shape, np.float32)
        size = int(np.prod(shape)) * np.dtype(case.dtype).itemsize
        values = rng.integers(0, 120, size, np.uint8)
        return values.view(case.dtype).reshape(shape)

    if case.kind == "join":
        return [filled((*case.shape[: case.axis], part, *case.shape[case.axis + 1 :])) for part in case.parts]
    inputs = [filled(case.shape)]
    return [*inputs, case.draw_indices(rng)] if case.kind == "gather" else inputs


def _expected(case: Case, inputs: list[Array]) -> list[Array]:
    x = inputs[0]
    if case.kind == "split":
        ends = np.cumsum(case.parts)[:-1]
        return np.split(x, ends, case.axis)
    if case.kind == "join":
        return [np.concatenate(inputs, case.axis)]
    if case.kind == "slice1":
        return [x[case.window_slices]]
    return [np.take(x, inputs[1], case.axis, mode="wrap")]
