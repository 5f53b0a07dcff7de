"""Which steps make the values that a model's movement is there for: those of its nodes, or cheaper ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from anydml.slim.finding import Finder
from anydml.slim.following import Followed, Following
from anydml.slim.sizes import StandIns
from anydml.slim.splitting import with_splits
from anydml.slim.steps import NODE, SLOW, Cost, Step, Steps, cost, every, is_slow
from anydml.slim.walking import captured

FREE = frozenset(("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
"""Operators that runtimes do by renaming a buffer."""

GROWING = frozenset(("CenterCropPad", "Expand", "Pad", "Tile"))
"""Operators that read their input once, and write something larger."""

MOST_MIXED = 1 << 14
"""Steps that are looked at, so that the results of a region share more of them."""

SPLIT_SIZES = 13
"""Opset from which on Split takes its sizes as an input."""

PARTS = 1000
"""Parts of values of several for which steps are looked for, and one more for each node of the model."""

WORKED_OUT = NODE // 2
"""What it counts for, as nodes, that a node's numbers are worked out when the model runs."""

FOLDED_BYTES = 1 << 16
"""Of a constant that is larger than what it is made of."""

NOTHING = Cost(0, 0, 0)


@dataclass
class Region:
    """Movement nodes that are connected, or read one value.

    Attributes:
        nodes: their numbers, in order.
        results: the values that others read.
        before: what it took to make them.
        after: what it takes now.
        refused: why its nodes stay, where they had to.
        kinds_before: the operators of the nodes.
        kinds_after: of those that take their place.
    """

    nodes: list[int]
    results: list[str] = field(default_factory=list)
    before: Cost = NOTHING
    after: Cost = NOTHING
    refused: str = ""
    kinds_before: list[str] = field(default_factory=list)
    kinds_after: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What it is called: by what it makes."""
        more = f" and {len(self.results) - 1} more" if len(self.results) > 1 else ""
        return f"{self.results[0]}{more}"


class Plan:
    """How each value is made.

    Args:
        following: the model's values.
        others: the same for other sizes.
        stand_ins: the sizes of `following`.
        kept: results whose regions stay as they are.

    Attributes:
        regions: all of them, in order.
        chosen: the steps of their results.
    """

    def __init__(
        self, following: Following, others: Sequence[Following], stand_ins: StandIns, kept: Set[str] = frozenset()
    ) -> None:
        self.following, self._others, self._stand_ins = following, others, stand_ins
        self.steps = Steps()
        self.chosen: dict[str, Step] = {}
        self._best: dict[str, Step] = {}
        self._ways: dict[str, list[Step]] = {}
        self._left = PARTS + len(following.nodes)
        self._originals: dict[str, Step] = {}
        self._sizes: dict[int, int] = {}
        self._region_of: dict[int, Region] = {}
        self._kept_names, self._opset = kept, following.opset
        self.regions = self._regions()
        for region in self.regions:
            self._choose(region)

    def region_of(self, name: str) -> Region | None:
        """The region that makes a value."""
        node = self.following.values[name].node if name in self.following.values else None
        return None if node is None else self._region_of[node[0]]

    def step(self, name: str) -> Step:
        """What makes a value."""
        return self.chosen.get(name) or self._step(name)

    def is_folded(self, name: str) -> bool:
        """Whether a value is part of the model from now on: its elements are few, and the same for all sizes."""
        found = self.following.values.get(name)
        if (
            name in self._kept_names
            or found is None
            or found.is_constant
            or found.tensor is None
            or found.tensor.array is None
        ):
            return False
        array = found.tensor.array
        return all(
            other.tensor is not None and other.tensor.array is not None and np.array_equal(other.tensor.array, array)
            for other in (following.values[name] for following in self._others)
        )

    def _regions(self) -> list[Region]:
        values = self.following.values
        readers: dict[str, int] = {}
        for number, (_, proto, _) in enumerate(self.following.nodes):
            made = next((values[name] for name in proto.output if name and name in values), None)
            if made is None or made.node is None:
                continue
            own = Region([number])
            self._region_of[number] = own
            for name in made.data:
                before = values[name].node
                if before is not None:
                    own = self._joined(self._region_of[before[0]], own)
                elif not values[name].is_constant:
                    # What two nodes make of one value may be the same.
                    own = self._joined(self._region_of[readers.setdefault(name, number)], own)
        found = {id(region): region for region in self._region_of.values()}
        demanded = dict.fromkeys(self._demanded())
        for name in demanded:
            region = self.region_of(name)
            if region is not None:
                region.results.append(name)
        return [region for region in found.values() if region.results]

    def _joined(self, first: Region, second: Region) -> Region:
        if first is second:
            return first
        if len(first.nodes) < len(second.nodes):
            first, second = second, first
        first.nodes = sorted([*first.nodes, *second.nodes])
        for number in second.nodes:
            self._region_of[number] = first
        return first

    def _demanded(self) -> Iterable[str]:
        """What is read by nodes that do not move, by graphs inside of nodes, and by whoever runs the model."""
        for number, (_, proto, _) in enumerate(self.following.nodes):
            if number not in self._region_of:
                yield from proto.input
            yield from captured(proto)
        yield from (output.name for output in self.following.outputs)

    def _choose(self, region: Region) -> None:
        old = {name: self._original(name) for name in region.results}
        region.before = region.after = cost(*old.values())
        chosen = old
        if not self._kept_names.isdisjoint(region.results):
            region.refused = "it could not be proved"
        else:
            outputs = self.following.output_names
            names = [name for name in region.results if not self.is_folded(name) or name in outputs]
            cheapest = {name: self._step(name) for name in names}
            starts = [cheapest, {name: old[name] for name in names}]
            if len(names) > 1:
                # Of the same nodes for several readers, none is cheaper alone.
                ways = {name: self._ways.get(name, ())[1:] for name in names}
                starts.append({name: min(ways[name], key=self.steps.cost, default=cheapest[name]) for name in names})
                starts = [self._mixed(names, start) for start in starts]
            new = min(starts, key=lambda start: cost(*start.values()))
            best = cost(*new.values())
            if self._opset >= SPLIT_SIZES:
                new = with_splits(self.steps, new)
                best = cost(*new.values())
            best = best if best.moved <= region.before.moved else region.before
            if best < region.before:
                chosen, region.after = new, best
        region.kinds_before, region.kinds_after = self._kinds(old), self._kinds(chosen)
        self.chosen.update(chosen)

    def _mixed(self, names: Sequence[str], steps: Mapping[str, Step]) -> dict[str, Step]:
        """Steps that share more: each is tried in all ways that were found, beside those of the others."""
        found, best = dict(steps), cost(*steps.values())
        size = sum(1 for _ in every(steps.values()))
        if size * sum(1 + len(self._ways.get(name, ())) for name in names) > MOST_MIXED:
            return found
        for name in names:
            for way in (self._original(name), *self._ways.get(name, ())):
                price = cost(*{**found, name: way}.values())
                if price < best:
                    found[name], best = way, price
        return found

    def _kinds(self, steps: Mapping[str, Step]) -> list[str]:
        """Operators of the nodes of some steps."""
        found: dict[object, str] = {}
        for step in every(steps.values()):
            if step.kind == "Split":
                found[id(step.inputs[0])] = step.kind
            elif step.kind:
                found[id(step)] = step.kind
            elif not isinstance(step.numbers, str) and step.numbers[0] != "Split":
                found[step.numbers[0]] = self.following.nodes[step.numbers[0]][1].op_type
        return [kind for kind in found.values() if kind != "Constant"]

    def _original(self, name: str) -> Step:
        """By the model's own nodes."""
        if name not in self._originals:
            self._originals[name] = self._kept(name, {each: self._original(each) for each in self._data(name)})
        return self._originals[name]

    def _data(self, name: str) -> Sequence[str]:
        return self.following.values[name].data

    def _kept(self, name: str, data: Mapping[str, Step]) -> Step:
        found = self.following.values[name]
        if found.node is None:
            return self.steps.there(name, found.sizes if found.tensor is not None else ())
        number, output = found.node
        proto = self.following.nodes[number][1]
        inputs = [data[each] for each in found.data]
        if number not in self._sizes:
            self._sizes[number] = sum(_bytes(self.following.values[each]) for each in proto.output if each)
        size = self._sizes[number]
        moved = 0 if proto.op_type in FREE else 2 * size
        if proto.op_type in GROWING:
            moved = size + _bytes(self.following.values[found.data[0]])
        weight = moved
        if proto.op_type == "Transpose":
            perm = next((each.ints for each in proto.attribute if each.name == "perm"), None)
            axes = [*perm] if perm is not None else [*reversed(range(len(found.sizes)))]
            weight = moved * SLOW if is_slow(self.following.values[found.data[0]].sizes, axes) else moved
        more = [each for each in proto.input[len(inputs) :] if each]
        extra = WORKED_OUT if any(not self.following.values[each].is_constant for each in more) else 0
        return self.steps.kept(number, output, inputs, found.sizes, moved, weight, NODE + extra)

    def _step(self, name: str) -> Step:
        """The cheapest that is found."""
        if name not in self._best:
            self._best[name] = self._found(name)
        return self._best[name]

    def _found(self, name: str) -> Step:
        following = self.following
        value = following.values[name]
        if value.node is None:
            return self._kept(name, {})
        if self.is_foldable(name):
            return self.steps.fold(name, value.sizes)
        best = self._kept(name, {each: self._step(each) for each in value.data})
        self._ways[name] = [best]
        for form in value.forms:
            parts = following.parts(form)
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
                self._ways.setdefault(name, []).append(step)
            if step is not None and self.steps.cost(step) < self.steps.cost(best):
                best = step
        return best

    def is_foldable(self, name: str) -> bool:
        """Whether a value is moved from constants alone, and not much larger than they are."""
        roots = self._roots(name)
        values = self.following.values
        if not roots or not all(values[root].is_constant for root in roots):
            return False
        size = _bytes(values[name])
        return self._stand_ins.is_constant(*values[name].sizes) and (
            size <= FOLDED_BYTES or size <= sum(_bytes(values[root]) for root in roots)
        )

    def _roots(self, name: str) -> set[str]:
        found: set[str] = set()
        stack = [name]
        seen: set[str] = set()
        while stack:
            each = stack.pop()
            if each in seen:
                continue
            seen.add(each)
            value = self.following.values[each]
            if value.node is None:
                found.add(each)
            stack += value.data
        return found


def _bytes(value: Followed) -> int:
    return 0 if value.tensor is None else value.tensor.nbytes
