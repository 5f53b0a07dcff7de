"""Which steps make the results of regions: those of the graph's own nodes, or cheaper ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np

from anydml.slim.costs import SHAPES, Cost
from anydml.slim.finding import Finder
from anydml.slim.following import Following
from anydml.slim.graph import Op
from anydml.slim.regions import Key, Region, Regions
from anydml.slim.sizes import StandIns
from anydml.slim.slicing import sliced_at_once, with_splits
from anydml.slim.steps import Step, cost, every

MOST_MIXED = 1 << 14
"""Most steps that are tried in a region so that its results share more of them."""

SPLIT_SIZES = 13
"""Opset from which on Split takes its sizes as an input."""

PARTS = 1000
"""Most parts for which steps are searched, in values of several parts; one more per node of the graph."""

FOLDED_BYTES = 1 << 16
"""Largest constant that may be larger than what it is made of, in bytes."""


class Plan:
    """The steps that make each value.

    Args:
        followings: the graph's values; then the same for other sizes.
        stand_ins: the sizes of the first.
        settled: regions that are as cheap as they get, and what they cost.
        kept: results whose regions stay as they are.

    Attributes:
        following: the graph's values.
        steps: where steps are made.
        regions: all of them, in order.
        chosen: the steps of the results of regions that change, by name.
        before: what all movement costs.
        after: what it costs as it is planned.
    """

    def __init__(
        self, followings: Sequence[Following], stand_ins: StandIns, settled: Mapping[Key, Cost], kept: Set[str]
    ) -> None:
        self.following, *self._others = followings
        self._stand_ins, self._kept_names = stand_ins, kept
        self._found = Regions(self.following)
        self.steps, self.regions = self._found.steps, self._found.every
        self.chosen: dict[str, Step] = {}
        self._best: dict[str, Step] = {}
        self._ways: dict[str, list[Step]] = {}
        self._folded: dict[str, bool] = {}
        self._constant_roots: dict[str, frozenset[str]] = {}
        self._left = PARTS + len(self.following.graph.ops)
        for region in self.regions:
            if region.key in settled:
                region.before = region.after = settled[region.key]
            else:
                self._choose(region)
        self.before = Cost.sum(region.before for region in self.regions)
        self.after = Cost.sum(region.after for region in self.regions)

    def replaces(self, op: Op) -> bool:
        """Whether a node goes, because its region changes."""
        region = self._found.region_of(next((name for name in op.outputs if name), ""))
        return region is not None and region.after != region.before

    def step(self, name: str) -> Step:
        """What makes a value."""
        region = self._found.region_of(name)
        return self.chosen.get(name) or (self._step(name) if region is None else self._steps(region)[name])

    def is_folded(self, name: str) -> bool:
        """Whether a value becomes part of the model: its elements are few, and the same for all sizes."""
        if name not in self._folded:
            self._folded[name] = name not in self._kept_names and self._is_known(name)
        return self._folded[name]

    def _is_known(self, name: str) -> bool:
        found = self.following.values.get(name)
        if found is None or found.is_constant or found.tensor is None or found.tensor.array is None:
            return False
        others = [following.values[name].tensor for following in self._others]
        array = found.tensor.array
        return all(each and each.array is not None and np.array_equal(each.array, array) for each in others)

    def _choose(self, region: Region) -> None:
        old = self._found.originals(region)
        region.before = region.after = cost(*old.values())
        if not self._kept_names.isdisjoint(region.results):
            region.refused = "it could not be proved"
            return
        first, *more = region.ops
        if not more and first.kind in SHAPES and self._is_needed(first):
            return
        names = [n for n in region.results if not self.is_folded(n) or n in self.following.graph.outputs]
        steps = self._steps(region)
        found = [steps, sliced_at_once(self._found, region, self._stand_ins) if len(region.ops) > 1 else old]
        if len(names) > 1:
            # Of the same nodes for several readers, none is cheaper alone.
            ways = {name: self._ways.get(name, ())[1:] for name in names}
            found.append({name: min(ways[name], key=self.steps.cost, default=steps[name]) for name in names})
        starts = [self._split({name: each[name] for name in names}) for each in found]
        if len(names) > 1:
            starts = [self._mixed(old, start) for start in starts]
        new = min(starts, key=lambda start: cost(*start.values()))
        best = cost(*new.values())
        if best.moved <= region.before.moved and best < region.before:
            region.after = best
            region.kinds_before, region.kinds_after = _kinds(old), _kinds(new)
            self.chosen.update(new)

    def _is_needed(self, op: Op) -> bool:
        """Whether a node gives what is no constant another shape, which is a constant: no other node is cheaper."""
        values = self.following.values
        before, after, *shape = (values[name] for name in (op.inputs[0], op.outputs[0], *op.inputs[1:]) if name)
        is_moved = before.sizes != after.sizes and not before.is_constant and not self.is_folded(op.outputs[0])
        return is_moved and all(each.is_constant for each in shape)

    def _split(self, steps: Mapping[str, Step]) -> dict[str, Step]:
        """The same with Splits, where there are such."""
        return with_splits(self.steps, steps) if self.following.graph.opset >= SPLIT_SIZES else {**steps}

    def _mixed(self, old: Mapping[str, Step], steps: Mapping[str, Step]) -> dict[str, Step]:
        """Steps that share more: each is tried in all ways that were found, beside those of the others."""
        found, best = dict(steps), cost(*steps.values())
        size = sum(1 for _ in every(steps.values()))
        if size * sum(1 + len(self._ways.get(name, ())) for name in steps) > MOST_MIXED:
            return found
        for name in steps:
            for way in (old[name], *self._ways.get(name, ())):
                if way is not found[name]:
                    price = cost(*{**found, name: way}.values())
                    if price < best:
                        found[name], best = way, price
        return found

    def _steps(self, region: Region) -> Mapping[str, Step]:
        """The cheapest that is found for each value of a region, those first that others are made of."""
        for op in region.ops:
            for name in filter(None, op.outputs):
                self._step(name)
        return self._best

    def _step(self, name: str) -> Step:
        if name not in self._best:
            self._best[name] = self._cheapest(name)
        return self._best[name]

    def _cheapest(self, name: str) -> Step:
        following = self.following
        value = following.values[name]
        if value.op is None:
            return self._found.kept(name, {})
        if self._is_foldable(name):
            return self.steps.fold(name, value.sizes)
        best = self._found.kept(name, {each: self._step(each) for each in value.data})
        ways = self._ways[name] = [best]
        for parts in value.parts:
            if parts is None or (len(parts) > 1 and self._left < 0):
                continue
            self._left -= len(parts) if len(parts) > 1 else 0
            assert value.tensor is not None, "it has a form"
            names = {part.source: following.names[part.source] for part in parts if part.source >= 0}
            if name in names.values():
                continue
            sources = {number: self._step(each) for number, each in names.items()}
            finder = Finder(self.steps, self._stand_ins, sources.__getitem__, value.tensor.dtype)
            step = finder.find(parts, value.sizes)
            if step is not None:
                ways.append(step)
                best = min(best, step, key=self.steps.cost)
        return best

    def _is_foldable(self, name: str) -> bool:
        """Whether a value is moved from constants alone, and not much larger than they are."""
        values = self.following.values
        roots, size = self._roots(name), values[name].bytes
        return (
            bool(roots)
            and self._stand_ins.is_constant(*values[name].sizes)
            and (size <= FOLDED_BYTES or size <= sum(values[root].bytes for root in roots))
        )

    def _roots(self, name: str) -> frozenset[str]:
        """The constants that a value is moved from; none where it is moved from others, too."""
        if name not in self._constant_roots:
            value = self.following.values[name]
            if value.op is None:
                roots = frozenset([name] if value.is_constant else [])
            else:
                each = [self._roots(data) for data in value.data]
                roots = frozenset().union(*each) if all(each) else frozenset()
            self._constant_roots[name] = roots
        return self._constant_roots[name]


def _kinds(steps: Mapping[str, Step]) -> list[str]:
    """Operators of the nodes of some steps."""
    found: dict[object, str] = {}
    for step in every(steps.values()):
        if step.kind == "Split":
            found[id(step.inputs[0])] = step.kind
        elif step.kind:
            found[id(step)] = step.kind
        elif isinstance(step.numbers[0], Op):
            found[step.numbers[0]] = step.numbers[0].kind
    return [kind for kind in found.values() if kind != "Constant"]
