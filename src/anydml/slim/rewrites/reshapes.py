"""Reshapes that are moved through nodes that compute: they change the leading axes of a group of nodes instead.

A group whose values begin with some axes computes them with other leading axes if that takes fewer Reshapes: 1×64×512
between two Gemm becomes 64×512, and the 4 heads of 1×4×64×64 become 2×2. It may take more if runtimes then need not
reshape products, or do not fuse a sum with the LayerNormalization behind it, which takes longer than both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.slim.analysis import Analysis
from anydml.slim.costs import CALL_BYTES, SHAPE_OPERATORS, SKIP_BYTES
from anydml.slim.graph import OUTSIDE_GRAPH, Op
from anydml.slim.operators import row_axes
from anydml.slim.products import FUSED_AXES, fused_products, normalized_sums
from anydml.slim.rewrites.rewrite import Rewrite
from anydml.slim.sizes import StandIns

MAX_CHANGES = 64
"""Maximum number of changes that are tried."""

BROADCASTING_OPERATORS = ELEMENTWISE_OPERATORS | {"MatMul"}
"""Operators that broadcast their inputs."""

Sizes = tuple[int, ...]


class Change(NamedTuple):
    """A change of the leading axes of shapes; the others stay.

    Attributes:
        before: the leading sizes.
        after: the leading axes that replace them.
    """

    before: Sizes
    after: Sizes

    @classmethod
    def of_reshape(cls, old: Sequence[int], new: Sequence[int]) -> Change:
        """Return the change that a Reshape makes; all trailing axes that are equal stay."""
        pairs = zip(old[::-1], new[::-1], strict=False)
        equal_axes = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))
        return cls(tuple(old[: len(old) - equal_axes]), tuple(new[: len(new) - equal_axes]))

    def of(self, sizes: Sequence[int]) -> Sizes | None:
        """Return a changed shape; None if the shape has other leading axes."""
        count = len(self.before)
        return (*self.after, *sizes[count:]) if tuple(sizes[:count]) == self.before else None

    def of_broadcast(self, sizes: Sequence[int], rank: int) -> Sizes | None:
        """Return the changed shape of an input that is broadcast to `rank` axes; None if there is none."""
        count = len(self.before)
        if len(sizes) <= rank - count:
            return tuple(sizes)
        if len(sizes) != rank:
            return None
        is_one = math.prod(sizes[:count]) == 1
        return (*(1,) * len(self.after), *sizes[count:]) if is_one else self.of(sizes)


class LeadingAxes:
    """The nodes of a graph that can be computed with other leading axes."""

    def __init__(self, analysis: Analysis, stand_ins: StandIns) -> None:
        self._analysis, self._values, self._stand_ins = analysis, analysis.values, stand_ins

    def changed_inputs(self, op: Op, change: Change) -> dict[int, Sizes] | None:
        """Return the changed shapes of a node's inputs, by number; None if it cannot be computed with them."""
        result = self._values.get(op.outputs[0]) if op.outputs else None
        if result is None or result.tensor is None or change.of(result.sizes) is None:
            return None
        if not op.inputs or not op.inputs[0] or not all(op.outputs):
            return None
        values = [self._values.get(name) for name in (*op.inputs, *op.outputs) if name]
        if not all(value and value.tensor for value in values):
            return None
        if not all(self._can_be_written(self._values[name].sizes, change) for name in op.outputs):
            return None
        if op.op_type in BROADCASTING_OPERATORS:
            return self._broadcast_inputs(op, change, len(result.sizes))
        axes = row_axes(op, self._analysis)
        if axes is None or min(axes) < len(change.before):
            return None
        sizes = self._values[op.inputs[0]].sizes
        other_shapes = [self._values[name].sizes for name in op.inputs[1:] if name]
        if any(len(sizes_of_other) > len(sizes) - len(change.before) for sizes_of_other in other_shapes):
            return None
        new_sizes = change.of(sizes) if self._can_be_written(sizes, change) else None
        return None if new_sizes is None else {0: new_sizes}

    def _broadcast_inputs(self, op: Op, change: Change, rank: int) -> dict[int, Sizes] | None:
        if op.op_type == "MatMul" and not self._keeps_matrices(op, change, rank):
            return None
        broadcast: dict[int, Sizes] = {}
        # If only rows are changed, the second factor is one matrix.
        count = 1 if op.op_type == "MatMul" and rank - len(change.before) == 1 else None
        for k, name in enumerate(op.inputs[:count]):
            if name:
                value = self._values[name]
                new_sizes = change.of_broadcast(value.sizes, rank)
                if new_sizes is None or not (value.is_constant or len(value.sizes) < rank or change.of(value.sizes)):
                    return None
                if new_sizes != value.sizes:
                    broadcast[k] = new_sizes
        is_variable = any(not self._values[op.inputs[k]].is_constant for k in broadcast)
        return broadcast if is_variable else None

    def accepts(self, op: Op, name: str, change: Change) -> bool:
        """Whether a node broadcasts a value, so that the value's leading axes of size 1 can be left out."""
        if (
            op.op_type not in BROADCASTING_OPERATORS
            or math.prod(change.before) != 1
            or len(change.after) >= len(change.before)
        ):
            return False
        rank = len(self._values[name].sizes)
        other_values = [self._values[operand] for operand in op.inputs if operand != name and operand in self._values]
        other_sizes = [
            value.sizes for value in other_values if value.tensor and (value.is_constant or not change.of(value.sizes))
        ]
        min_rank = 2 if op.op_type == "MatMul" else 0
        return rank - len(change.before) + len(change.after) >= min_rank and any(
            len(sizes) >= rank for sizes in other_sizes
        )

    def with_inputs(self, op: Op, inputs: list[str]) -> Op:
        """Return a node with inputs of other leading axes; its axis attributes become negative."""
        axes = None if op.op_type in BROADCASTING_OPERATORS else row_axes(op, self._analysis)
        if axes is None:
            return op.copy_with(inputs)
        last = [axis - len(self._values[op.inputs[0]].sizes) for axis in axes]
        if not op.op_type.startswith("Reduce"):
            return op.copy_with(inputs, axis=last[0])
        if len(inputs) > 1:
            inputs[1] = self._analysis.graph.constant(inputs[1] or "axes", np.array(last, np.int64))
            return op.copy_with(inputs)
        return op.copy_with(inputs, axes=last)

    def _can_be_written(self, sizes: Sequence[int], change: Change) -> bool:
        """Whether a shape can be changed, and Reshapes to and from the changed one can be written."""
        new_sizes = change.of(sizes)
        return new_sizes is not None and self._stand_ins.can_reshape(sizes, new_sizes)

    def _keeps_matrices(self, op: Op, change: Change, rank: int) -> bool:
        """Whether a change keeps the matrices of a MatMul, or only changes the rows of the first factor."""
        trailing_count = rank - len(change.before)
        first, second = (len(self._values[name].sizes) for name in op.inputs)
        if min(first, second) < 2 or len(change.after) + trailing_count < 2:
            return False
        return trailing_count > 1 or (trailing_count == 1 and first == rank and second == 2)


class ReshapePushing(Rewrite):
    """Finds the groups of nodes whose Reshapes can be left out."""

    title = "Reshapes move through nodes"

    def new_nodes(self) -> list[Op] | None:
        """See `Rewrite.new_nodes`."""
        self._nodes, self._makers, self._readers = self._graph.ops, self._graph.makers, self._graph.readers
        self._computing = [
            (node_number, op) for node_number, op in enumerate(self._nodes) if not self._analysis.moves(op)
        ]
        self._axes = LeadingAxes(self._analysis, self._stand_ins)
        self._fused = {product.number: product for product in fused_products(self._analysis)}
        self._names: dict[tuple[str, Sizes], str] = {}
        changes: dict[Change, None] = {}
        for product in self._fused.values():
            changes[Change.of_reshape(product.sizes, (product.rows, product.columns))] = None
        self._sums = normalized_sums(self._analysis)
        for sizes in self._sums.values():
            if len(sizes) == FUSED_AXES:
                merged = (math.prod(sizes[:-1]), sizes[-1])
                can_merge = self._stand_ins.can_reshape(merged, sizes)
                changes[Change.of_reshape(sizes, merged) if can_merge else Change(sizes[:-1], (*sizes[:-1], 1))] = None
        for op in self._nodes:
            if self._is_reshape(op):
                change = Change.of_reshape(self._values[op.inputs[0]].sizes, self._values[op.outputs[0]].sizes)
                changes.update(dict.fromkeys((change, Change(change.after, change.before))))
        candidates = []
        for change in [*changes][:MAX_CHANGES]:
            for group in self._groups(change):
                gain = self._cost(set(), group, change) - self._cost(group, group, change)
                fewer = self._in_runtime(set(), group, change) - self._in_runtime(group, group, change)
                candidates.append((gain, fewer - gain, change, group))
        of_node: dict[int, Change] = {}
        for gain, new_nodes, change, group in sorted(candidates, key=lambda candidate: -candidate[0]):
            if gain > 0 and new_nodes <= max(0, self._spare) and of_node.keys().isdisjoint(group):
                self._spare -= new_nodes
                of_node.update(dict.fromkeys(group, change))
        return self._written(of_node) if of_node else None

    def _is_reshape(self, op: Op) -> bool:
        return op.op_type in SHAPE_OPERATORS and self._analysis.moves(op)

    def _groups(self, change: Change) -> Iterable[set[int]]:
        """Yield groups of connected nodes that can be changed, without nodes that need more Reshapes than they save."""
        remaining = {
            node_number for node_number, op in self._computing if self._axes.changed_inputs(op, change) is not None
        }
        while remaining:
            group, pending = set[int](), [next(iter(remaining))]
            while pending:
                node_number = pending.pop()
                if node_number in remaining:
                    remaining.remove(node_number)
                    group.add(node_number)
                    pending += self._neighbours(node_number)
            is_smaller = True
            while is_smaller:
                is_smaller = False
                for node_number in sorted(group):
                    smaller_group = group - {node_number}
                    if self._cost(smaller_group, {node_number}, change) < self._cost(group, {node_number}, change):
                        group, is_smaller = smaller_group, True
            if group:
                yield group

    def _neighbours(self, node_number: int) -> Iterable[int]:
        """Yield the nodes that share a value with a node."""
        op = self._nodes[node_number]
        for name in (*op.inputs, *op.outputs):
            if name in self._makers:
                yield self._makers[name]
            if name in self._values and not self._values[name].is_constant:
                yield from self._readers.get(name, ())

    def _cost(self, group: Set[int], numbers: Iterable[int], change: Change) -> int:
        """Return the cost, in Reshapes, of some nodes with their inputs and outputs if a group is changed."""
        names = {
            name for node_number in numbers for op in [self._nodes[node_number]] for name in (*op.inputs, *op.outputs)
        }
        return self._in_runtime(group, numbers, change) + sum(self._reshapes_of(name, group, change) for name in names)

    def _in_runtime(self, group: Set[int], numbers: Iterable[int], change: Change) -> int:
        """Return the cost, in Reshapes, of some products and fused sums in runtimes if a group is changed."""
        count = 0
        for node_number in numbers:
            shape = self._fused[node_number].sizes if node_number in self._fused else self._sums.get(node_number)
            if shape is not None and node_number in group:
                shape = change.of(shape)
            if node_number in self._fused:
                count += len(shape or ()) != 2
            elif shape is not None and len(shape) == FUSED_AXES:
                count += SKIP_BYTES * math.prod(shape) // CALL_BYTES
        return count

    def _reshapes_of(self, name: str, group: Set[int], change: Change) -> int:
        """Return the number of Reshapes of a value if a group is changed."""
        value = self._values.get(name)
        new = None if value is None or value.tensor is None or value.is_constant else change.of(value.sizes)
        if new is None:
            return 0
        needs_new = needs_old = is_reshaped = False
        for node_number in self._readers.get(name, ()):
            op = self._nodes[node_number]
            if node_number == OUTSIDE_GRAPH:
                needs_old = True
            elif node_number in group:
                needs_new = True
            elif self._is_reshape(op):
                is_reshaped = is_reshaped or self._values[op.outputs[0]].sizes == new
            elif self._analysis.moves(op):
                needs_old = needs_old or not all(map(self._is_reshaped_by, self._readers.get(op.outputs[0], ())))
            elif not self._axes.accepts(op, name, change):
                needs_old = True
        node_number = self._makers.get(name, OUTSIDE_GRAPH)
        if node_number in group:
            return int(needs_old)
        op = self._nodes[node_number]
        if node_number == OUTSIDE_GRAPH or not self._analysis.moves(op):
            return int(needs_new or is_reshaped)
        if self._is_reshape(op):
            return int(needs_old) + int(needs_new and self._values[op.inputs[0]].sizes != new)
        return int(needs_new and (needs_old or not self._is_reshaped_by(self._makers.get(op.inputs[0], OUTSIDE_GRAPH))))

    def _is_reshaped_by(self, node_number: int) -> bool:
        """Whether a node is a Reshape, which may as well make another shape."""
        return node_number != OUTSIDE_GRAPH and self._is_reshape(self._nodes[node_number])

    def _written(self, of_node: Mapping[int, Change]) -> list[Op]:
        for node_number, op in enumerate(self._nodes):
            if node_number not in of_node:
                self._ops.append(self._without_ones(op, of_node))
                continue
            change = of_node[node_number]
            inputs = [*op.inputs]
            for k, sizes in (self._axes.changed_inputs(op, change) or {}).items():
                if self._values[inputs[k]].is_constant:
                    array = self._graph.constants.read(inputs[k])
                    inputs[k] = self._graph.constant(inputs[k], array.reshape(sizes))
                else:
                    inputs[k] = self._reshaped_name(inputs[k], sizes)
            names = [self._graph.new_name(name, "shaped") for name in op.outputs]
            self._ops.append(self._axes.with_inputs(op, inputs).copy_with(outputs=names))
            for new_name, name in zip(names, op.outputs, strict=True):
                sizes = self._values[name].sizes
                after = change.of(sizes) or ()
                self._names[name, after] = new_name
                self._write(new_name, after, sizes, name)
        return self._ops

    def _without_ones(self, op: Op, of_node: Mapping[int, Change]) -> Op:
        """Return a node that is not changed, but reads a value without leading axes of size 1 that it does not need."""
        for k, name in enumerate(op.inputs):
            change = of_node.get(self._makers.get(name, OUTSIDE_GRAPH))
            new = change.of(self._values[name].sizes) if change and name in self._values else None
            if change and new and self._axes.accepts(op, name, change):
                return op.copy_with([*op.inputs[:k], self._reshaped_name(name, new), *op.inputs[k + 1 :]])
        return op

    def _reshaped_name(self, name: str, sizes: Sizes) -> str:
        """Return the name of a value in another shape."""
        if (name, sizes) not in self._names:
            new_name = self._graph.new_name(name, "shaped")
            self._names[name, sizes] = self._write(name, self._values[name].sizes, sizes, new_name)
        return self._names[name, sizes]

    def _write(self, name: str, before: Sizes, after: Sizes, output: str) -> str:
        """Write a Reshape from one shape to another."""
        shape = self._stand_ins.shape(before, after)
        assert shape is not None, "it can be written"
        return self._reshape(name, shape, output)
