"""Reshapes moved through nodes that compute: what they do to leading axes is done to those of a group of nodes.

A group computes values that begin with some axes, ``before``, and is made to compute them with others, ``after``, where
that needs fewer Reshapes: 1×64×512 between two Gemm becomes 64×512, and the 4 heads of 1×4×64×64 become 2×2. Where
runtimes need not reshape products then, it may need more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from anydml.slim.changes import Change, Changing, Sizes, change_of
from anydml.slim.costs import SHAPES
from anydml.slim.graph import OUTSIDE, Op
from anydml.slim.products import fusing
from anydml.slim.rewriting import Rewriting

MOST = 64
"""Ways to change leading axes that are tried."""


class Reshaping(Rewriting):
    """Looks for such groups."""

    def rewritten(self) -> list[Op] | None:
        """The nodes with all groups that are worth it; None where there is none."""
        self._nodes, self._makers, self._users = self._graph.ops, self._graph.makers, self._graph.users
        self._computing = [(number, op) for number, op in enumerate(self._nodes) if not self._following.moves(op)]
        self._changing = Changing(self._following, self._stand_ins)
        self._fusing = {product.number: product for product in fusing(self._following)}
        self._names: dict[tuple[str, Sizes], str] = {}
        changes: dict[Change, None] = {}
        for product in self._fusing.values():
            changes[change_of((*product.leading, product.columns), (product.rows, product.columns))] = None
        for op in self._nodes:
            if self._is_shape(op):
                change = change_of(self._values[op.inputs[0]].sizes, self._values[op.outputs[0]].sizes)
                changes.update(dict.fromkeys((change, Change(change.after, change.before))))
        found = []
        for change in [*changes][:MOST]:
            for group in self._groups(change):
                gain = self._total(set(), group, change) - self._total(group, group, change)
                fewer = self._reshaped(set(), group, change) - self._reshaped(group, group, change)
                found.append((gain, fewer - gain, change, group))
        of_node: dict[int, Change] = {}
        for gain, more, change, group in sorted(found, key=lambda each: -each[0]):
            if gain > 0 and more <= max(0, self._spare) and of_node.keys().isdisjoint(group):
                self._spare -= more
                of_node.update(dict.fromkeys(group, change))
        return self._written(of_node) if of_node else None

    def _is_shape(self, op: Op) -> bool:
        return op.kind in SHAPES and self._following.moves(op)

    def _groups(self, change: Change) -> Iterable[set[int]]:
        """Nodes that can be changed and are connected, without those that need more Reshapes than they save."""
        left = {number for number, op in self._computing if self._changing.inputs(op, change) is not None}
        while left:
            group, waiting = set[int](), [next(iter(left))]
            while waiting:
                number = waiting.pop()
                if number in left:
                    left.remove(number)
                    group.add(number)
                    waiting += self._around(number)
            removed = True
            while removed:
                removed = False
                for number in sorted(group):
                    rest = group - {number}
                    if self._total(rest, {number}, change) < self._total(group, {number}, change):
                        group, removed = rest, True
            if group:
                yield group

    def _around(self, number: int) -> Iterable[int]:
        """Nodes that make or read what a node reads or makes."""
        op = self._nodes[number]
        for name in (*op.inputs, *op.outputs):
            if name in self._makers:
                yield self._makers[name]
            if name in self._values and not self._values[name].is_constant:
                yield from self._users.get(name, ())

    def _total(self, group: Set[int], numbers: Iterable[int], change: Change) -> int:
        """Reshapes of all values that some nodes read and make, and of products, if a group is changed."""
        names = {name for number in numbers for op in [self._nodes[number]] for name in (*op.inputs, *op.outputs)}
        return self._reshaped(group, numbers, change) + sum(self._cost(name, group, change) for name in names)

    def _reshaped(self, group: Set[int], numbers: Iterable[int], change: Change) -> int:
        """How many of some nodes are products that runtimes reshape, if a group is changed."""
        count = 0
        for product in (self._fusing[number] for number in numbers if number in self._fusing):
            sizes = (*product.leading, product.columns)
            count += len((change.of(sizes) if product.number in group else sizes) or ()) != 2
        return count

    def _cost(self, name: str, group: Set[int], change: Change) -> int:
        """Reshapes of a value."""
        value = self._values.get(name)
        if value is None or value.tensor is None or value.is_constant:
            return 0
        new = change.of(value.sizes)
        if new is None:
            return 0
        is_new = is_old = is_shaped = False
        for number in self._users.get(name, ()):
            op = self._nodes[number]
            if number == OUTSIDE:
                is_old = True
            elif number in group:
                is_new = True
            elif self._is_shape(op):
                is_shaped = is_shaped or self._values[op.outputs[0]].sizes == new
            elif self._following.moves(op):
                is_old = is_old or not all(self._is_absorbed(user) for user in self._users.get(op.outputs[0], ()))
            elif not self._changing.is_free(op, name, change):
                is_old = True
        number = self._makers.get(name, OUTSIDE)
        if number in group:
            return int(is_old)
        op = self._nodes[number]
        if number == OUTSIDE or not self._following.moves(op):
            return int(is_new or is_shaped)
        before = self._values[op.inputs[0]]
        if self._is_shape(op):
            return int(is_old) + int(is_new and before.sizes != new)
        return int(is_new and (is_old or not self._is_absorbed(self._makers.get(op.inputs[0], OUTSIDE))))

    def _is_absorbed(self, number: int) -> bool:
        """Whether a node gives elements a shape, which may as well be another."""
        return number != OUTSIDE and self._is_shape(self._nodes[number])

    def _written(self, of_node: Mapping[int, Change]) -> list[Op]:
        for number, op in enumerate(self._nodes):
            if number not in of_node:
                self._ops.append(self._with_free_input(op, of_node))
                continue
            change = of_node[number]
            inputs = [*op.inputs]
            for k, sizes in (self._changing.inputs(op, change) or {}).items():
                if self._values[inputs[k]].is_constant:
                    array = self._graph.constants.read(inputs[k])
                    inputs[k] = self._graph.constant(inputs[k], array.reshape(sizes))
                else:
                    inputs[k] = self._shaped(inputs[k], sizes)
            made = [self._graph.new_name(name, "shaped") for name in op.outputs]
            self._ops.append(self._changing.counted_from_the_end(op, inputs).replaced(outputs=made))
            for new, name in zip(made, op.outputs, strict=True):
                sizes, after = self._values[name].sizes, change.of(self._values[name].sizes) or ()
                self._names[name, after] = new
                self._to(sizes, new, after, name)
        return self._ops

    def _with_free_input(self, op: Op, of_node: Mapping[int, Change]) -> Op:
        """A node that stays, and reads the first value whose axes of 1 it does not need without them."""
        for k, name in enumerate(op.inputs):
            change = of_node.get(self._makers.get(name, OUTSIDE))
            new = change.of(self._values[name].sizes) if change and name in self._values else None
            if change and new and self._changing.is_free(op, name, change):
                return op.replaced([*op.inputs[:k], self._shaped(name, new), *op.inputs[k + 1 :]])
        return op

    def _shaped(self, name: str, sizes: Sizes) -> str:
        """A value in another shape, under a new name."""
        if (name, sizes) not in self._names:
            new = self._graph.new_name(name, "shaped")
            self._names[name, sizes] = self._to(sizes, name, self._values[name].sizes, new)
        return self._names[name, sizes]

    def _to(self, sizes: Sizes, name: str, before: Sizes, output: str) -> str:
        shape = self._stand_ins.shape(before, sizes)
        assert shape is not None, "it was found before"
        return self._reshape(name, shape, output)
