"""What a small graph did on inputs of certain shapes and dtypes, to be done again without composing.

A run is recorded as long as nothing of it depends on elements of the inputs: programs, which arrays they read, and
which results they make. Arrays that follow from the model and from shapes alone are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.engines.protocol import CompiledCall
from anydml.memory.results import empty
from anydml.onnx.values import Array, Sizes, Tensor, Tensors

if TYPE_CHECKING:
    from anydml.onnx.values import Flowing

MOST_BYTES = 1 << 20
"""Bytes that a run may make for it to be kept: where there are more, composing takes little of the time."""

MOST_REPLAYS = 32
"""Runs of a model that are kept, by the shapes and dtypes of its inputs; the oldest goes first."""

Reference = tuple[int, int]
"""An array of a run: of the inputs (0), or of a step by its number, from 1 on; and which of them."""


class Step(NamedTuple):
    """One program.

    Attributes:
        run: runs it on what it reads and what it makes.
        sources: arrays that are always the same, or references.
        results: shapes and dtypes of what it makes.
    """

    run: Callable[[Sequence[Array]], None]
    sources: tuple[Array | Reference, ...]
    results: tuple[tuple[Sizes, np.dtype[Any]], ...]


class Replay:
    """Steps that are the same for all inputs of the same shapes and dtypes. Any number of threads may run it at once.

    Attributes:
        programs: how many programs that are.
    """

    def __init__(self, steps: Sequence[Step], outputs: Sequence[Reference]) -> None:
        self._steps = steps
        self._outputs = outputs
        self.programs = len(steps)

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs, each an array of its own."""
        made: list[Sequence[Array]] = [inputs]
        for run, sources, results in self._steps:
            arrays = [*starmap(empty, results)]
            read = [made[source[0]][source[1]] if isinstance(source, tuple) else source for source in sources]
            run((*read, *arrays))
            made.append(arrays)
        return tuple([made[step][number] for step, number in self._outputs])


class Recording:
    """A run that may be done again, until something shows that it depends on elements.

    Args:
        inputs: the graph's inputs, in order.
        fixed: arrays that are the model's.
    """

    def __init__(self, inputs: Sequence[Array], fixed: Sequence[Array]) -> None:
        self._references: dict[int, Reference] = {id(array): (0, k) for k, array in enumerate(inputs)}
        # Kept, because a number may be given to another array once one is gone.
        self._fixed = {id(array): array for array in fixed}
        self._alive: list[Array] = []
        self._steps: list[Step] = []
        self._bytes = 0
        self._is_good = True
        # One array for two inputs: the next time there may be two.
        if len(self._references) < len(inputs) or not self._fixed.keys().isdisjoint(self._references):
            self.stop()

    def stop(self) -> None:
        """What follows depends on elements, or is large: nothing is kept alive for it."""
        self._is_good = False
        self._references, self._fixed, self._alive, self._steps = {}, {}, [], []

    def fix(self, array: Array) -> None:
        """An array that follows from shapes and the model alone."""
        if self._makes(array.nbytes):
            self._fixed[id(array)] = array

    def _makes(self, size: int) -> bool:
        """Count bytes that are made; whether that is still little."""
        self._bytes += size
        if self._bytes > MOST_BYTES:
            self.stop()
        return self._is_good

    def is_fixed(self, values: Sequence[Flowing | None]) -> bool:
        """Whether all elements are known from shapes and the model alone."""
        return all(
            value is None or (isinstance(value, Tensor) and value.array is not None and id(value.array) in self._fixed)
            for value in values
        )

    def looked_at(self, tensors: Sequence[Tensor]) -> None:
        """Elements were read."""
        if self._is_good and not self.is_fixed(tensors):
            self.stop()

    def step(self, compiled: CompiledCall | None, sources: Sequence[Array], targets: Sequence[Array]) -> None:
        """A program ran."""
        if not self._is_good:
            return
        if all(id(source) in self._fixed for source in sources):
            for target in targets:
                self.fix(target)
            return
        every = [self._fixed.get(id(source), self._references.get(id(source))) for source in sources]
        if any(each is None for each in every):
            self.stop()
        if not self._makes(sum(target.nbytes for target in targets)):
            return
        for number, target in enumerate(targets):
            self._references[id(target)] = len(self._steps) + 1, number
            self._alive.append(target)
        results = tuple((target.shape, target.dtype) for target in targets)
        self._steps.append(Step(compiled.run if compiled else _nothing, tuple(every), results))  # type: ignore[arg-type]  # none is None

    def replay(self, outputs: Sequence[Flowing]) -> Replay | None:
        """What does the same again, or None where the run depended on elements, or was large."""
        if not self._is_good:
            return None
        found: list[Reference] = []
        for value in outputs:
            if isinstance(value, Tensors) or value.array is None:
                return None
            reference = self._references.get(id(value.array))
            # Each output is an array of its own, and no input.
            if reference is None or not reference[0] or reference in found:
                return None
            found.append(reference)
        return Replay(self._steps, found)


def _nothing(operands: Sequence[Array]) -> None:
    """Nothing moves where there are no elements."""


class Replays:
    """The runs of one model that can be done again, by the layouts of its inputs."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Replay] = {}

    def find(self, given: Mapping[str, Any]) -> tuple[Hashable, Replay | None]:
        """The key of inputs, None where they have none, and what is kept for them."""
        parts = []
        for name, value in given.items():
            if type(value) is not np.ndarray:
                return None, None
            parts.append((name, value.shape, value.strides, value.dtype, value.flags.aligned))
        key = tuple(parts)
        return key, self._kept.get(key)

    def keep(self, key: Hashable, replay: Replay) -> None:
        """Keep one, in the place of the oldest where there are many."""
        kept = self._kept
        if len(kept) >= MOST_REPLAYS:
            # Another table, not a smaller one: other threads may be looking into it.
            kept = dict([*kept.items()][1:])
        self._kept = {**kept, key: replay}
