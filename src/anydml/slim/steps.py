"""Steps: what makes a tensor of others, each a node of the standard, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

NODE = 720720
"""What a node counts for: a node of several outputs is shared out evenly among them."""

CALL = 4096
"""Bytes whose movement takes as long as it takes ONNX Runtime to call a node."""

SLOW = 8
"""How much more time ONNX Runtime takes for a Transpose or Slice that moves element by element."""

SHORT = 32
"""Bytes in a row below which a Slice does."""


class Cost(NamedTuple):
    """What is compared: the time that bytes and nodes take, then nodes, each `NODE`.

    Attributes:
        weight: bytes that are read and written, those of slow nodes several times, and `CALL` for each node.
        nodes: their number.
        moved: bytes that are read and written.
    """

    weight: int
    nodes: int
    moved: int

    @property
    def whole(self) -> int:
        """Nodes, rounded up."""
        return -(-self.nodes // NODE)

    @classmethod
    def sum(cls, costs: Iterable[Cost]) -> Cost:
        """Of all."""
        return cls(*map(sum, zip(NOTHING, *costs, strict=True)))


NOTHING = Cost(0, 0, 0)


@dataclass(frozen=True, eq=False)
class Step:
    """A tensor, and how it is made.

    Attributes:
        kind: the operator; empty for a value that is there, and for one of a node that stays.
        inputs: what it is made of.
        sizes: its shape.
        numbers: what else the operator is given.
        moved: bytes that the step reads and writes.
        weight: the same, those of slow nodes several times.
        nodes: how many nodes it is, each `NODE`: less than one where a node makes several tensors.
    """

    kind: str
    inputs: tuple[Step, ...]
    sizes: tuple[int, ...]
    numbers: Any
    moved: int
    weight: int
    nodes: int

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
        """What it takes to make one tensor."""
        if id(step) not in self._costs:
            self._costs[id(step)] = cost(step)
        return self._costs[id(step)]

    def there(self, name: str, sizes: Sequence[int]) -> Step:
        """A value that is there."""
        return self._step("", (), sizes, name, 0, 0)

    def kept(
        self,
        node: Hashable,
        output: int,
        inputs: Sequence[Step],
        sizes: Sequence[int],
        moved: int,
        weight: int,
        nodes: int,
    ) -> Step:
        """An output of a node that stays, which costs the same whatever is read of it."""
        key = "", tuple(map(id, inputs)), (), (node,)
        if key not in self._made:
            self._made[key] = Step("", tuple(inputs), (), (node,), moved, weight, nodes)
        return self._step("", [self._made[key]], sizes, (node, output), 0, 0)

    def fold(self, name: str, sizes: Sequence[int]) -> Step:
        """A value that is moved once and for all, and becomes part of the model."""
        return self._step("Constant", (), sizes, name, 0, 0)

    def reshape(self, step: Step, sizes: Sequence[int]) -> Step:
        """In another shape."""
        while step.kind == "Reshape":
            (step,) = step.inputs
        if step.sizes == tuple(sizes):
            return step
        return self._step("Reshape", (step,), sizes, None, 0, NODE)

    def transpose(self, step: Step, axes: Sequence[int], width: int) -> Step:
        """Axis k of the result is axis ``axes[k]``."""
        if [*axes] == [*range(len(axes))]:
            return step
        sizes = [step.sizes[axis] for axis in axes]
        return self._step("Transpose", (step,), sizes, tuple(axes), 2 * step.count * width, NODE)

    def slice(self, step: Step, parts: Sequence[tuple[int, int, int]], width: int) -> Step:
        """For each axis, where it begins, how many, and how far apart."""
        sizes = [count for _, count, _ in parts]
        if tuple(sizes) == step.sizes:
            return step
        return self._step("Slice", (step,), sizes, tuple(parts), 2 * math.prod(sizes) * width, NODE)

    def split(self, step: Step, axis: int, lengths: Sequence[int], width: int) -> list[Step]:
        """Parts, one after the other along an axis, by one node."""
        moved = 2 * step.count * width
        node = self._step("", [step], (), ("Split", axis, tuple(lengths)), moved, NODE)
        return [self.part(node, k) for k in range(len(lengths))]

    def part(self, node: Step, number: int) -> Step:
        """An output of a Split."""
        _, axis, lengths = node.numbers
        sizes = node.inputs[0].sizes
        own = (*sizes[:axis], lengths[number], *sizes[axis + 1 :])
        return self._step("Split", [node], own, (axis, lengths, number), 0, 0)

    def blocks(self, kind: str, step: Step, sizes: Sequence[int], block: int, mode: str, width: int) -> Step:
        """DepthToSpace or SpaceToDepth."""
        return self._step(kind, (step,), sizes, (block, mode), 2 * step.count * width, NODE)

    def with_inputs(self, step: Step, inputs: Sequence[Step]) -> Step:
        """The same of other inputs, which have the same shapes."""
        if all(a is b for a, b in zip(step.inputs, inputs, strict=True)):
            return step
        return self._step(step.kind, inputs, step.sizes, step.numbers, step.moved, step.nodes)

    def expand(self, step: Step, sizes: Sequence[int], width: int) -> Step:
        """Broadcast to a shape of the same rank."""
        moved = (step.count + math.prod(sizes)) * width
        return step if step.sizes == tuple(sizes) else self._step("Expand", (step,), sizes, None, moved, NODE)

    def picked(self, step: Step, axis: int, indices: Sequence[int], width: int) -> Step:
        """Along an axis, what indices say."""
        sizes = (*step.sizes[:axis], len(indices), *step.sizes[axis + 1 :])
        moved = 2 * math.prod(sizes) * width
        return self._step("Gather", (step,), sizes, (axis, tuple(indices)), moved, NODE)

    def concat(self, steps: Sequence[Step], axis: int, width: int) -> Step:
        """One after the other."""
        sizes = [*steps[0].sizes]
        sizes[axis] = sum(step.sizes[axis] for step in steps)
        return self._step("Concat", steps, sizes, axis, 2 * math.prod(sizes) * width, NODE)

    def pad(self, step: Step, before: Sequence[int], after: Sequence[int], fill: bytes, dtype: np.dtype[Any]) -> Step:
        """With elements around it."""
        sizes = [n + a + b for n, a, b in zip(step.sizes, before, after, strict=True)]
        moved = (step.count + math.prod(sizes)) * len(fill)
        return self._step("Pad", (step,), sizes, ((*before, *after), fill, dtype), moved, NODE)

    def _step(
        self, kind: str, inputs: Sequence[Step], sizes: Sequence[int], numbers: Any, moved: int, nodes: int
    ) -> Step:
        key = kind, tuple(map(id, inputs)), tuple(sizes), numbers
        if key not in self._made:
            slow = (kind == "Transpose" and is_slow(inputs[0].sizes, numbers)) or (
                kind == "Slice" and moved * _row(inputs[0].sizes, sizes) < 2 * SHORT * math.prod(sizes)
            )
            weight = moved * (SLOW if slow else SLOW // 2 if kind == "DepthToSpace" else 1)
            self._made[key] = Step(kind, tuple(inputs), tuple(sizes), numbers, moved, weight, nodes)
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
    """What it takes to make some tensors."""
    weight = nodes = moved = 0
    for step in every(steps):
        weight += step.weight
        nodes += step.nodes
        moved += step.moved
    return Cost(weight + nodes * CALL // NODE, nodes, moved)


def _row(sizes: Sequence[int], taken: Sequence[int]) -> int:
    """Elements that a Slice finds side by side."""
    found = 1
    for size, count in zip(reversed(sizes), reversed(taken), strict=True):
        found *= count
        if count != size:
            break
    return found


def is_slow(sizes: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether a Transpose moves element by element: the last axis is another, and more than one changes its place."""
    moving = [axis for axis in axes if sizes[axis] != 1]
    # Axes that stay together are one.
    groups = [k for k, axis in enumerate(moving) if not k or not _follows(sizes, moving[k - 1], axis)]
    order = np.argsort([moving[k] for k in groups]).tolist()
    place = [order.index(k) for k in range(len(order))]
    if not place or place[-1] == len(place) - 1:
        return False
    return not any(
        [k for k in place if k != one] == [k for k in range(len(place)) if k != one] for one in range(len(place))
    )


def _follows(sizes: Sequence[int], first: int, second: int) -> bool:
    return second > first and all(sizes[axis] == 1 for axis in range(first + 1, second))
