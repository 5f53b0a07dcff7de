"""Reshapes moved through nodes that compute: what they do to leading axes is done to those of a group of nodes.

A group computes values that begin with some axes, ``before``, and is made to compute them with others, ``after``, where
that needs fewer Reshapes: 1×64×512 between two Gemm becomes 64×512, and the 4 heads of 1×4×64×64 become 2×2. The axes
behind stay as they are, and so do rows, sums and products along them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from anydml.onnx.graph import opsets_of, plain_domain
from anydml.onnx.training_nodes import FreshNames
from anydml.onnx.values import Array
from anydml.slim.constants import Constants
from anydml.slim.following import Following
from anydml.slim.pushing import ELEMENTWISE, row_axes
from anydml.slim.sizes import StandIns
from anydml.slim.walking import captured

SHAPES = frozenset(("Flatten", "Reshape", "Squeeze", "Unsqueeze"))
"""Operators that give elements another shape."""

MOST = 64
"""Ways to change leading axes that are tried."""

OUTSIDE = -1

Sizes = tuple[int, ...]


class Change(NamedTuple):
    """What is done to the leading axes of a value."""

    before: Sizes
    after: Sizes

    def of(self, sizes: Sequence[int]) -> Sizes | None:
        """The other shape of a value that begins with them; None where it does not."""
        count = len(self.before)
        return (*self.after, *sizes[count:]) if tuple(sizes[:count]) == self.before else None

    def of_constant(self, sizes: Sequence[int], rank: int) -> Sizes | None:
        """The other shape of a constant that is broadcast to a value of some rank; None where it has none."""
        count = len(self.before)
        if len(sizes) <= rank - count:
            return tuple(sizes)
        if len(sizes) == rank and math.prod(sizes[:count]) == 1:
            return ((1,) * len(self.after) + tuple(sizes[count:])) if rank else ()
        return self.of(sizes) if len(sizes) == rank else None


class Reshaping:
    """Looks for such groups in one model.

    Args:
        model: the model, whose movement is composed already.
        following: its values.
        stand_ins: the sizes of `following`.
        constants: reads its constants.
    """

    def __init__(self, model: ModelProto, following: Following, stand_ins: StandIns, constants: Constants) -> None:
        self._model, self._stand_ins, self._constants = model, stand_ins, constants
        self._values = following.values
        self._nodes = [*model.graph.node]
        self._opset = opsets_of(model.opset_import).get("", 0)
        self._fresh = FreshNames(model)
        self._makers = {name: number for number, node in enumerate(self._nodes) for name in node.output if name}
        self._users: dict[str, list[int]] = {}
        for number, node in enumerate(self._nodes):
            for name in node.input:
                self._users.setdefault(name, []).append(number)
            for name in captured(node):
                self._users.setdefault(name, []).append(OUTSIDE)
        for output in model.graph.output:
            self._users.setdefault(output.name, []).append(OUTSIDE)
        self._result = ModelProto()
        self._made: dict[tuple[str, object], str] = {}

    def reshaped(self) -> ModelProto | None:
        """The model with all groups that are worth it; None where there is none."""
        changes: dict[Change, None] = {}
        for node in self._nodes:
            if self._is_shape(node) and len(changes) < MOST:
                old, new = self._values[node.input[0]].sizes, self._values[node.output[0]].sizes
                same = next((k for k, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b), None)
                same = min(len(old), len(new)) if same is None else same
                first, second = old[: len(old) - same], new[: len(new) - same]
                changes.update(dict.fromkeys((Change(first, second), Change(second, first))))
        found = [
            (self._total(set(), group, change) - self._total(group, group, change), change, group)
            for change in changes
            for group in self._groups(change)
        ]
        of_node: dict[int, Change] = {}
        for gain, change, group in sorted(found, key=lambda each: -each[0]):
            if gain > 0 and of_node.keys().isdisjoint(group):
                of_node.update(dict.fromkeys(group, change))
        return self._written(of_node) if of_node else None

    def _is_shape(self, node: NodeProto) -> bool:
        return node.op_type in SHAPES and self._is_moved(node)

    def _is_moved(self, node: NodeProto) -> bool:
        return any(name in self._values and self._values[name].node is not None for name in node.output[:1])

    def _groups(self, change: Change) -> Iterable[set[int]]:
        """Nodes that can be changed and are connected, without those that need more Reshapes than they save."""
        left = {number for number, node in enumerate(self._nodes) if self._changed(node, change) is not None}
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
        node = self._nodes[number]
        for name in (*node.input, *node.output):
            if name in self._makers:
                yield self._makers[name]
            if not self._values[name].is_constant if name in self._values else False:
                yield from self._users.get(name, ())

    def _total(self, group: Set[int], numbers: Iterable[int], change: Change) -> int:
        """Reshapes of all values that some nodes read and make, if a group is changed."""
        names = {name for number in numbers for node in [self._nodes[number]] for name in (*node.input, *node.output)}
        return sum(self._cost(name, group, change) for name in names)

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
            node = self._nodes[number]
            if number == OUTSIDE:
                is_old = True
            elif number in group:
                is_new = True
            elif self._is_shape(node):
                is_shaped = is_shaped or self._values[node.output[0]].sizes == new
            elif self._is_moved(node):
                is_old = is_old or not all(self._is_absorbed(user) for user in self._users.get(node.output[0], ()))
            elif not self._is_free(node, name, change):
                is_old = True
        number = self._makers.get(name, OUTSIDE)
        if number in group:
            return int(is_old)
        node = self._nodes[number]
        if number == OUTSIDE or not self._is_moved(node):
            return int(is_new or is_shaped)
        before = self._values[node.input[0]]
        if self._is_shape(node):
            return int(is_old) + int(is_new and before.sizes != new)
        return int(is_new and (is_old or not self._is_absorbed(self._makers.get(node.input[0], OUTSIDE))))

    def _is_absorbed(self, number: int) -> bool:
        """Whether a node gives elements a shape, which may as well be another."""
        return number != OUTSIDE and self._is_shape(self._nodes[number])

    def _is_free(self, node: NodeProto, name: str, change: Change) -> bool:
        """Whether a node makes the same of a value without its leading axes of 1, which it broadcasts."""
        if plain_domain(node.domain) or not (node.op_type in ELEMENTWISE or node.op_type == "MatMul"):
            return False
        if math.prod(change.before) != 1 or len(change.after) >= len(change.before):
            return False
        rank = len(self._values[name].sizes)
        others = [self._values[each] for each in node.input if each != name and each in self._values]
        known = [each.sizes for each in others if each.tensor and (each.is_constant or not change.of(each.sizes))]
        least = 2 if node.op_type == "MatMul" else 0
        return rank - len(change.before) + len(change.after) >= least and any(len(sizes) >= rank for sizes in known)

    def _changed(self, node: NodeProto, change: Change) -> dict[int, Sizes] | None:
        """The other shapes of a node's inputs, by their places; None where the node cannot do without the old ones."""
        made = self._values.get(node.output[0]) if node.output else None
        if made is None or made.tensor is None or change.of(made.sizes) is None:
            return None
        values = [self._values.get(name) for name in (*node.input, *node.output) if name]
        if plain_domain(node.domain) or self._is_moved(node) or not all(value and value.tensor for value in values):
            return None
        if not node.input or not node.input[0] or not all(node.output):
            return None
        rank, count = len(made.sizes), len(change.before)
        if any(name and not self._is_written(self._values[name].sizes, change) for name in node.output):
            return None
        found: dict[int, Sizes] = {}
        if node.op_type in ELEMENTWISE or node.op_type == "MatMul":
            if node.op_type == "MatMul" and not self._is_product(node, change, rank):
                return None
            # Where rows lead, the matrix that they are multiplied by has none of their axes.
            inputs = node.input[: 1 if node.op_type == "MatMul" and rank - count == 1 else None]
            for k, name in enumerate(inputs):
                if not name:
                    continue
                value = self._values[name]
                new = change.of_constant(value.sizes, rank)
                if new is None or not (value.is_constant or len(value.sizes) < rank or change.of(value.sizes)):
                    return None
                if new != value.sizes:
                    found[k] = new
            is_read = any(not self._values[node.input[k]].is_constant for k in found)
            return found if is_read else None
        axes = row_axes(node, self._values, self._constants, self._opset)
        if axes is None or min(axes) < count:
            return None
        sizes = self._values[node.input[0]].sizes
        others = [self._values[name].sizes for name in node.input[1:] if name]
        if not self._is_written(sizes, change) or any(len(each) > len(sizes) - count for each in others):
            return None
        new = change.of(sizes)
        return None if new is None else {0: new}

    def _is_written(self, sizes: Sequence[int], change: Change) -> bool:
        """Whether a value has another shape, and Reshape can be told both."""
        new = change.of(sizes)
        return (
            new is not None
            and self._stand_ins.shape(sizes, new) is not None
            and self._stand_ins.shape(new, sizes) is not None
        )

    def _is_product(self, node: NodeProto, change: Change, rank: int) -> bool:
        """Whether the matrices of a product, or the rows of its first factor, lie behind the leading axes."""
        behind = rank - len(change.before)
        first, second = (len(self._values[name].sizes) for name in node.input)
        if min(first, second) < 2 or len(change.after) + behind < 2:
            return False
        return behind > 1 or (behind == 1 and first == rank and second == 2)

    def _written(self, of_node: dict[int, Change]) -> ModelProto:
        result = self._result = ModelProto()
        result.CopyFrom(self._model)
        del result.graph.node[:]
        for number, node in enumerate(self._nodes):
            copy = NodeProto()
            copy.CopyFrom(node)
            if number not in of_node:
                for k, name in enumerate(node.input):
                    change = of_node.get(self._makers.get(name, OUTSIDE))
                    new = change and name in self._values and change.of(self._values[name].sizes)
                    if change and new and self._is_free(node, name, change):
                        copy.input[k] = self._reshape(name, new, self._fresh.new(name, "free"))
                        break
                result.graph.node.append(copy)
                continue
            change = of_node[number]
            for k, sizes in (self._changed(node, change) or {}).items():
                name = node.input[k]
                if self._values[name].is_constant:
                    copy.input[k] = self._constant(name, self._constants.read(name).reshape(sizes))
                else:
                    copy.input[k] = self._reshape(name, sizes, self._fresh.new(name, "shaped"))
            self._count_from_the_end(copy, node)
            names = [self._fresh.new(name, "shaped") for name in node.output]
            del copy.output[:]
            copy.output.extend(names)
            result.graph.node.append(copy)
            for made, name in zip(names, node.output, strict=True):
                self._reshape(made, self._values[name].sizes, name, change.of(self._values[name].sizes))
        return result

    def _count_from_the_end(self, copy: NodeProto, node: NodeProto) -> None:
        """Write a node's axes so that they are the same whatever is in front of them."""
        axes = (
            None
            if node.op_type in ELEMENTWISE or node.op_type == "MatMul"
            else row_axes(node, self._values, self._constants, self._opset)
        )
        if axes is None:
            return
        rank = len(self._values[node.input[0]].sizes)
        kept = [each for each in copy.attribute if each.name not in ("axis", "axes")]
        del copy.attribute[:]
        copy.attribute.extend(kept)
        last = [axis - rank for axis in axes]
        if not node.op_type.startswith("Reduce"):
            copy.attribute.append(helper.make_attribute("axis", last[0]))
        elif len(node.input) > 1:
            copy.input[1] = self._constant("axes", np.array(last, np.int64))
        else:
            copy.attribute.append(helper.make_attribute("axes", last))

    def _reshape(self, name: str, sizes: Sizes, output: str, before: Sizes | None = None) -> str:
        shape = self._stand_ins.shape(self._values[name].sizes if before is None else before, sizes)
        assert shape is not None, "it was found before"
        numbers = self._constant("shape", np.array(shape, np.int64))
        self._result.graph.node.append(
            helper.make_node("Reshape", [name, numbers], [output], self._fresh.new(output, "Reshape"))
        )
        return output

    def _constant(self, base: str, array: Array) -> str:
        key = base, array.tobytes() if base in ("axes", "shape") else array.shape
        if key not in self._made:
            name = self._made[key] = self._fresh.new(base, "shaped")
            self._result.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return self._made[key]
