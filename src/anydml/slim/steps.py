"""Steps: how a tensor is made from others by standard nodes, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

NODE = 720720
"""The count of one node, which divides by any small number of outputs."""

CALL = 1 << 14
"""Bytes whose movement takes as long as it takes ONNX Runtime to call a node."""

ROW = 128
"""Bytes whose movement takes as long as it takes ONNX Runtime to begin another row that it copies."""

SLOW = {"Transpose": 4, "DepthToSpace": 2}
"""How many times as long that takes in operators that find rows by more than one axis."""


class Cost(NamedTuple):
    """A cost; costs are compared by weight, then by nodes.

    Attributes:
        weight: bytes that are read and written, `ROW` or more for each row, and `CALL` for each node.
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
        """Return the sum of some costs."""
        return cls(*map(sum, zip(NOTHING, *costs, strict=True)))


NOTHING = Cost(0, 0, 0)


@dataclass(frozen=True, eq=False)
class Step:
    """A tensor and the node that makes it.

    Attributes:
        kind: the operator; empty for a value that is there, and for one of a node that stays.
        inputs: what it is made of.
        sizes: its shape.
        numbers: what else the operator is given.
        moved: bytes that the step reads and writes.
        weight: the same, and what rows that are copied one by one count for.
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
    def is_node(self) -> bool:
        """Whether it is a node whose outputs are other steps."""
        return not self.kind and bool(self.nodes)

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
        key = step.kind, tuple(map(id, inputs)), step.sizes, step.numbers
        return self._made.setdefault(key, replace(step, inputs=tuple(inputs)))

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
        """Join along an axis; tensors that are transposed alike are joined first."""
        perms = {step.numbers if step.kind == "Transpose" else None for step in steps}
        if len(perms) == 1 and (perm := perms.pop()) is not None:
            return self.transpose(self.concat([each.inputs[0] for each in steps], perm[axis], width), perm, width)
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
            weight = moved
            if kind == "":
                # Of a Split, all parts at once.
                _, axis, lengths = numbers if moved else ("", 0, ())
                weight += ROW * len(lengths) * math.prod(inputs[0].sizes[:axis]) if moved else 0
            elif moved:
                plain = [by for _, _, by in numbers] if kind == "Slice" else numbers[0] if kind == "Gather" else numbers
                weight += rows_weight(kind, [each.sizes for each in inputs], sizes, plain)
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
    """Return the cost of some tensors, each step counted once."""
    weight = nodes = moved = 0
    for step in every(steps):
        weight += step.weight
        nodes += step.nodes
        moved += step.moved
    return Cost(weight + nodes * CALL // NODE, nodes, moved)


def rows_weight(kind: str, sources: Sequence[Sequence[int]], sizes: Sequence[int], numbers: Any) -> int:
    """Bytes whose movement takes as long as it takes to begin all rows that a node copies.

    Args:
        kind: the operator.
        sources: the shapes of what it reads.
        sizes: that of what it makes.
        numbers: as those of a step; of a Slice, how far apart elements are along each axis.
    """
    count, rows = math.prod(sizes), 0
    if kind == "Transpose":
        rows = _transposed_rows(sources[0], numbers)
    elif kind in ("Slice", "Split"):
        # From the end, up to the first axis of which not all is taken.
        row = 1
        for size, taken, by in zip(sources[0][::-1], sizes[::-1], numbers[::-1], strict=True):
            row *= taken if by == 1 else 1
            if size != taken:
                break
        rows = count // row
    elif kind == "Gather":
        rows = count // math.prod(sources[0][numbers + 1 :])
    elif kind == "DepthToSpace":
        rows = count
    return rows * ROW * SLOW.get(kind, 1)


def _transposed_rows(sizes: Sequence[int], axes: Sequence[int]) -> int:
    """Rows that a Transpose copies, elements if the last axis is another, none if one axis moves to the end."""
    moving = [axis for axis in axes if sizes[axis] != 1]
    # Axes that stay together are one.
    groups = [k for k, axis in enumerate(moving) if not k or not _follows(sizes, moving[k - 1], axis)]
    order = sorted(moving[k] for k in groups)
    place = [order.index(moving[k]) for k in groups]
    if place and place[-1] == len(place) - 1:
        return math.prod(sizes[axis] for axis in moving[: groups[-1]]) if len(place) > 1 else 0
    rest = [[k for k in place if k != one] for one in place]
    return 0 if any(others == sorted(others) for others in rest) or not place else math.prod(sizes)


def _follows(sizes: Sequence[int], first: int, second: int) -> bool:
    return second > first and all(sizes[axis] == 1 for axis in range(first + 1, second))
