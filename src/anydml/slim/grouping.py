"""Which nodes are better computed in another order of axes: products, and what is done to them element by element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anydml.slim.costs import CALL, is_quick
from anydml.slim.graph import OUTSIDE
from anydml.slim.layouts import Layout, flipped, layouts
from anydml.slim.parts import Part
from anydml.slim.products import Product, Reader, Reading, product_of, products_of
from anydml.slim.sizes import StandIns

FLIP = (1, 0)
MOST = 64
"""Nodes of a group."""


@dataclass
class Group:
    """Nodes that are computed in another order of axes.

    Attributes:
        layout: the new order.
        root: the value that everything begins with.
        entry: how the root is moved to it; None where it is the root's own node that changes.
        nodes: those that compute element by element.
        sinks: products that take the new order for what they multiply.
        gain: bytes that are moved no more.
    """

    layout: Layout
    root: str
    entry: Reader | None
    nodes: list[int] = field(default_factory=list)
    sinks: list[int] = field(default_factory=list)
    gain: int = 0


class Grouping:
    """Looks for such nodes in one graph."""

    def __init__(self, reading: Reading, stand_ins: StandIns) -> None:
        self._reading, self._stand_ins = reading, stand_ins

    def groups(self) -> list[Group]:
        """Return the groups that save bytes; no two of them share a node."""
        groups: list[Group] = []
        taken: set[int] = set()
        for group in sorted(self._groups(), key=lambda each: -each.gain):
            own = {*group.nodes, *group.sinks}
            if group.entry is None:
                own.add(self._reading.following.graph.makers[group.root])
            if taken.isdisjoint(own):
                taken |= own
                groups.append(group)
        return groups

    def _groups(self) -> Iterable[Group]:
        """Yield all groups that save bytes."""
        reading = self._reading
        for product in products_of(reading.following):
            name = reading.following.graph.ops[product.number].outputs[0]
            if not self._stand_ins.is_constant(product.rows, product.columns):
                continue
            for layout in self._layouts(name, product):
                is_transposed = layout.perm == FLIP
                if is_quick(product.rows if is_transposed else layout.sizes[1], product.depth, is_transposed):
                    group = self._grown(Group(layout, name, None), name, None)
                    if group.gain > (CALL if is_transposed else 0):
                        yield group
        for root, readers in reading.readers.items():
            seen = set()
            for reader in readers:
                found = None if reader.part is None or reader.part in seen else flipped(reader.part)
                seen.add(reader.part)
                if found is not None and self._stand_ins.is_constant(*found):
                    group = self._grown(Group(Layout(found, FLIP), root, reader), reader.name, reader)
                    if group.gain > CALL and group.sinks:
                        yield group

    def _layouts(self, name: str, product: Product) -> list[Layout]:
        """Orders in which a product is read, by way of nodes that compute element by element."""
        found: dict[Layout, None] = {}
        waiting, seen = [name], {name}
        while waiting and len(seen) < MOST:
            for reader in self._reading.readers.get(waiting.pop(), ()):
                if reader.part is not None:
                    found.update(dict.fromkeys(layouts(reader.part, product.leading, product.columns)))
                if self._reading.is_elementwise(reader.number):
                    made = self._reading.following.graph.ops[reader.number].outputs[0]
                    if made not in seen and self._reading.size(made) == self._reading.size(name):
                        seen.add(made)
                        waiting.append(made)
        return [*found]

    def _grown(self, group: Group, first: str, entry: Reader | None) -> Group:
        """All that can be done in the new order from a value on, and what it is worth."""
        reading = self._reading
        count = reading.size(first)
        # Where each value's elements are in the old order.
        before = {group.root: entry.part if entry else (reading.source(group.root) or ("", None))[1]}
        waiting = [group.root] if len(reading.readers.get(group.root, ())) <= MOST else []
        while waiting and len(group.nodes) < MOST:
            name = waiting.pop(0)
            for reader in reading.readers.get(name, ()):
                if reader.number in group.nodes or (name == group.root and entry and reader.part != entry.part):
                    continue
                if self._fits(reader.number, before, group, count, entry):
                    group.nodes.append(reader.number)
                    made = reading.following.graph.ops[reader.number].outputs[0]
                    before[made] = (reading.source(made) or ("", None))[1]
                    # Those that could not do it without this one may now.
                    waiting += [*before]
        group.nodes.sort()
        times = sum(self._gain(group, name, part) for name, part in before.items())
        group.gain = 2 * times * reading.following.values[first].bytes
        return group

    def _gain(self, group: Group, name: str, part: Part | None) -> int:
        """How many transpositions of a value are needed no more, less those that are needed then."""
        entry = group.entry if name == group.root else None
        is_moved = is_kept = False
        for reader in self._reading.readers.get(name, ()):
            if reader.number in group.nodes or reader.part is None or (entry and reader.part != entry.part):
                continue
            if reader.part != part:
                is_moved = is_moved or (group.entry is None and group.layout.is_of(reader.part))
            elif self._is_sink(reader, group.layout):
                group.sinks.append(reader.number)
            else:
                is_kept = True
        return is_moved + (entry is not None) - is_kept

    def _fits(
        self, number: int, before: Mapping[str, Part | None], group: Group, count: int, entry: Reader | None
    ) -> bool:
        """Whether a node can be computed in the new order: of values that are in it, and constants."""
        reading, values = self._reading, self._reading.following.values
        if not reading.is_elementwise(number):
            return False
        op = reading.following.graph.ops[number]
        (made,) = op.outputs
        fine = group.layout.cut(values[made].sizes) if made in values and reading.size(made) == count else None
        if fine is None:
            return False
        for name in filter(None, op.inputs):
            value = values.get(name)
            if value is None or value.tensor is None:
                return False
            if value.is_constant or value.tensor.size == 1:
                if value.tensor.size > 1 and len(value.sizes) > len(values[made].sizes):
                    return False
                continue
            sources = reading.sources(name)
            if value.tensor.size != count or not sources or not sources <= before.keys():
                return False
            one = reading.source(name)
            is_there = one is not None and one[1] == before[one[0]]
            if not is_there and not (entry is None and self._is_joined(made, before)):
                return False
        return True

    def _is_joined(self, made: str, inside: Mapping[str, Part | None]) -> bool:
        """Whether a value is computed with another that is in the new order."""
        ops = self._reading.following.graph.ops
        return any(
            reader.name == made
            and self._reading.is_elementwise(reader.number)
            and not inside.keys().isdisjoint(ops[reader.number].inputs)
            for reader in self._reading.readers.get(made, ())
        )

    def _is_sink(self, reader: Reader, layout: Layout) -> bool:
        product = None if reader.number == OUTSIDE else product_of(self._reading.following, reader.number)
        if product is None or layout.perm != FLIP or product.given != reader.name:
            return False
        return layout.sizes == (product.rows, product.depth) and self._stand_ins.is_constant(*layout.sizes)
