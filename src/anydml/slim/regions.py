"""Regions of movement: connected nodes that only move, and what they cost as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anydml.slim.costs import NOTHING, WORKED_OUT, Cost, movement
from anydml.slim.following import Following
from anydml.slim.graph import Op
from anydml.slim.steps import Step, Steps, cost
from anydml.slim.windows import windows

Key = tuple[frozenset[Op], tuple[str, ...]]


@dataclass
class Region:
    """Movement nodes that are connected, or read one value.

    Attributes:
        ops: its nodes, in order.
        results: names of the values that others read.
        before: what it cost.
        after: what it costs once it is composed.
        refused: why its nodes stay, where they had to.
        kinds_before: the operators of its nodes.
        kinds_after: of those that take their place.
    """

    ops: list[Op]
    results: list[str] = field(default_factory=list)
    before: Cost = NOTHING
    after: Cost = NOTHING
    refused: str = ""
    kinds_before: list[str] = field(default_factory=list)
    kinds_after: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """A name for messages: the first result."""
        more = f" and {len(self.results) - 1} more" if len(self.results) > 1 else ""
        return f"{self.results[0]}{more}"

    @property
    def key(self) -> Key:
        """The same for the same nodes with the same results."""
        return frozenset(self.ops), tuple(self.results)


class Regions:
    """The regions of a graph, and the steps that its own nodes are.

    Attributes:
        following: the same.
        steps: where steps are made.
        every: all regions that have results, in order.
    """

    def __init__(self, following: Following) -> None:
        self.following = following
        self.steps = Steps()
        self._costs: dict[Op, Cost] = {}
        self._of: dict[Op, Region] = {}
        self.every = self._found()

    def region_of(self, name: str) -> Region | None:
        """The region that makes a value."""
        value = self.following.values.get(name)
        return None if value is None or value.op is None else self._of[value.op]

    def originals(self, region: Region) -> dict[str, Step]:
        """What makes the results of a region, by its own nodes."""
        found: dict[str, Step] = {}
        for op in region.ops:
            for name in filter(None, op.outputs):
                data = self.following.values[name].data
                found[name] = self.kept(name, {each: found.get(each) or self.kept(each, {}) for each in data})
        return {name: found[name] for name in region.results}

    def cost(self, region: Region) -> Cost:
        """What a region's own nodes cost."""
        return cost(*self.originals(region).values())

    def kept(self, name: str, data: Mapping[str, Step]) -> Step:
        """What makes a value, by the node that does, from steps that make what the node moves."""
        found = self.following.values[name]
        op = found.op
        if op is None:
            return self.steps.there(name, found.sizes if found.tensor is not None else ())
        if op not in self._costs:
            self._costs[op] = self._cost(op, found.data)
        return self.steps.kept(op, found.output, [data[each] for each in found.data], found.sizes, self._costs[op])

    def _cost(self, op: Op, data: Sequence[str]) -> Cost:
        """What a node costs."""
        values = self.following.values
        results = [values[each] for each in op.outputs if each]
        shapes = ([values[each].sizes for each in data], [each.sizes for each in results])
        found = movement(op.kind, *shapes, results[0].width, self._numbers(op))
        is_worked_out = any(not values[each].is_constant for each in op.inputs[len(data) :] if each)
        return found._replace(weight=found.weight + WORKED_OUT) if is_worked_out else found

    def _numbers(self, op: Op) -> Any:
        """What the rows depend on that a node copies."""
        rank = len(self.following.values[op.inputs[0]].sizes)
        perm = op.attribute("perm")
        if op.kind == "Transpose":
            return [*perm.ints] if perm is not None else [*reversed(range(rank))]
        if op.kind in ("Slice", "Split"):
            found = windows(self.following, op)
            return [1] * rank if found is None else [by for _, _, by in found[0]]
        return op.integer("axis", 0) % max(1, rank)

    def _found(self) -> list[Region]:
        values = self.following.values
        readers: dict[str, Op] = {}
        for op in self.following.graph.ops:
            if not self.following.moves(op):
                continue
            own = self._of[op] = Region([op])
            made = next(values[name] for name in op.outputs if name)
            for name in made.data:
                before = values[name].op
                if before is not None:
                    own = self._joined(self._of[before], own)
                elif not values[name].is_constant:
                    # What two nodes make of one value may be the same.
                    own = self._joined(self._of[readers.setdefault(name, op)], own)
        for name in dict.fromkeys(self._demanded()):
            region = self.region_of(name)
            if region is not None:
                region.results.append(name)
        found = {id(region): region for region in self._of.values()}
        for region in found.values():
            region.ops.clear()
        for op in self.following.graph.ops:
            if op in self._of:
                self._of[op].ops.append(op)
        return [region for region in found.values() if region.results]

    def _joined(self, first: Region, second: Region) -> Region:
        if first is second:
            return first
        if len(first.ops) < len(second.ops):
            first, second = second, first
        first.ops += second.ops
        for op in second.ops:
            self._of[op] = first
        return first

    def _demanded(self) -> Iterable[str]:
        """Names that nodes that compute, subgraphs and the caller read."""
        for op in self.following.graph.ops:
            if op not in self._of:
                yield from op.inputs
            yield from op.captured
        yield from self.following.graph.outputs
