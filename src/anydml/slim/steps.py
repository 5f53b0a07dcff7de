"""Steps: how a tensor is made from others by standard nodes, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anydml.slim.costs import NOTHING, Cost, movement


@dataclass(frozen=True, eq=False)
class Step:
    """A tensor and the node that makes it.

    Attributes:
        kind: the operator; empty for a value that is there, and for one of a node that stays.
        inputs: what it is made of.
        sizes: its shape.
        numbers: what else the operator is given.
        cost: of its node; nothing where another step has that.
    """

    kind: str
    inputs: tuple[Step, ...]
    sizes: tuple[int, ...]
    numbers: Any
    cost: Cost = NOTHING

    @property
    def is_node(self) -> bool:
        """Whether it is a node whose outputs are other steps."""
        return not self.kind and self.cost != NOTHING

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.sizes)


class Steps:
    """The steps of a graph, each there once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Step] = {}
        self._costs: dict[int, Cost] = {}

    def cost(self, step: Step) -> Cost:
        """Return the cost of one tensor."""
        if id(step) not in self._costs:
            self._costs[id(step)] = cost(step)
        return self._costs[id(step)]

    def there(self, name: str, sizes: Sequence[int]) -> Step:
        """A value that is there."""
        return self._step("", (), sizes, name)

    def kept(self, node: Hashable, output: int, inputs: Sequence[Step], sizes: Sequence[int], cost: Cost) -> Step:
        """An output of a node that stays, which costs the same whatever is read of it."""
        return self._step("", [self._step("", inputs, (), (node,), cost)], sizes, (node, output))

    def fold(self, name: str, sizes: Sequence[int]) -> Step:
        """A value that is moved once and for all, and becomes part of the model."""
        return self._step("Constant", (), sizes, name)

    def reshape(self, step: Step, sizes: Sequence[int]) -> Step:
        """In another shape."""
        while step.kind == "Reshape":
            (step,) = step.inputs
        return step if step.sizes == tuple(sizes) else self._moved("Reshape", step, sizes, None, 0)

    def transpose(self, step: Step, axes: Sequence[int], width: int) -> Step:
        """Axis k of the result is axis ``axes[k]``."""
        if [*axes] == [*range(len(axes))]:
            return step
        return self._moved("Transpose", step, [step.sizes[axis] for axis in axes], tuple(axes), width, axes)

    def slice(self, step: Step, parts: Sequence[tuple[int, int, int]], width: int) -> Step:
        """For each axis, where it begins, how many, and how far apart."""
        sizes = tuple(count for _, count, _ in parts)
        by = [by for _, _, by in parts]
        return step if sizes == step.sizes else self._moved("Slice", step, sizes, tuple(parts), width, by)

    def split(self, step: Step, axis: int, lengths: Sequence[int], width: int) -> list[Step]:
        """Parts, one after the other along an axis, by one node."""
        shapes = [(*step.sizes[:axis], length, *step.sizes[axis + 1 :]) for length in lengths]
        cost = movement("Split", [step.sizes], shapes, width, [1] * len(step.sizes))
        node = self._step("", [step], (), ("Split", axis, tuple(lengths)), cost)
        return [self.part(node, k) for k in range(len(lengths))]

    def part(self, node: Step, number: int) -> Step:
        """An output of a Split."""
        _, axis, lengths = node.numbers
        sizes = node.inputs[0].sizes
        own = (*sizes[:axis], lengths[number], *sizes[axis + 1 :])
        return self._step("Split", [node], own, (axis, lengths, number))

    def blocks(self, kind: str, step: Step, sizes: Sequence[int], block: int, mode: str, width: int) -> Step:
        """DepthToSpace or SpaceToDepth."""
        return self._moved(kind, step, sizes, (block, mode), width)

    def with_inputs(self, step: Step, inputs: Sequence[Step]) -> Step:
        """The same of other inputs, which have the same shapes."""
        if all(a is b for a, b in zip(step.inputs, inputs, strict=True)):
            return step
        key = step.kind, tuple(map(id, inputs)), step.sizes, step.numbers
        return self._made.setdefault(key, replace(step, inputs=tuple(inputs)))

    def expand(self, step: Step, sizes: Sequence[int], width: int) -> Step:
        """Broadcast to a shape of the same rank."""
        return step if step.sizes == tuple(sizes) else self._moved("Expand", step, sizes, None, width)

    def picked(self, step: Step, axis: int, indices: Sequence[int], width: int) -> Step:
        """Along an axis, what indices say."""
        sizes = (*step.sizes[:axis], len(indices), *step.sizes[axis + 1 :])
        return self._moved("Gather", step, sizes, (axis, tuple(indices)), width, axis)

    def concat(self, steps: Sequence[Step], axis: int, width: int) -> Step:
        """Join along an axis; tensors that are transposed alike are joined first."""
        perms = {step.numbers if step.kind == "Transpose" else None for step in steps}
        if len(perms) == 1 and (perm := perms.pop()) is not None:
            return self.transpose(self.concat([each.inputs[0] for each in steps], perm[axis], width), perm, width)
        sizes = [*steps[0].sizes]
        sizes[axis] = sum(step.sizes[axis] for step in steps)
        cost = movement("Concat", [step.sizes for step in steps], [sizes], width)
        return self._step("Concat", steps, sizes, axis, cost)

    def pad(self, step: Step, before: Sequence[int], after: Sequence[int], fill: bytes, dtype: np.dtype[Any]) -> Step:
        """With elements around it."""
        sizes = [n + a + b for n, a, b in zip(step.sizes, before, after, strict=True)]
        return self._moved("Pad", step, sizes, ((*before, *after), fill, dtype), len(fill))

    def _moved(self, kind: str, step: Step, sizes: Sequence[int], numbers: Any, width: int, along: Any = None) -> Step:
        """A node of one input; `along` is what its cost depends on beside shapes."""
        return self._step(kind, [step], sizes, numbers, movement(kind, [step.sizes], [sizes], width, along))

    def _step(
        self, kind: str, inputs: Sequence[Step], sizes: Sequence[int], numbers: Any, cost: Cost = NOTHING
    ) -> Step:
        key = kind, tuple(map(id, inputs)), tuple(sizes), numbers
        if key not in self._made:
            self._made[key] = Step(kind, tuple(inputs), tuple(sizes), numbers, cost)
        return self._made[key]


def every(steps: Iterable[Step]) -> Iterator[Step]:
    """Steps and those that they need, each once, needed ones first."""
    done: set[int] = set()
    stack = [(step, False) for step in reversed([*steps])]
    while stack:
        step, ready = stack.pop()
        if id(step) in done:
            continue
        if ready or not step.inputs:
            done.add(id(step))
            yield step
        else:
            stack.append((step, True))
            stack += [(each, False) for each in reversed(step.inputs)]


def cost(*steps: Step) -> Cost:
    """Return the cost of some tensors, each step counted once."""
    found: dict[int, Cost] = {}
    stack = [*steps]
    while stack:
        step = stack.pop()
        if id(step) not in found:
            found[id(step)] = step.cost
            stack += step.inputs
    return Cost.sum([each for each in found.values() if each is not NOTHING])
