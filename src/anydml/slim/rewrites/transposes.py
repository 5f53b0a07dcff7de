"""Transposes that are moved through nodes that compute, so that they cancel.

A group of nodes reads only transposed values, besides constants. It can compute the same in the order of axes before
the transposition, with its constants transposed and its attributes adapted; its results are transposed instead. That
is worth it if fewer bytes are transposed, as when another Transpose follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.slim.graph import OUTSIDE_GRAPH, Op
from anydml.slim.operators import SOFTMAX, is_quantized_whole, permutation, row_axes
from anydml.slim.rewrites.rewrite import Rewrite

OPERATORS_WITH_AXIS = SOFTMAX | {"Concat", "Split"}
"""Operators with an attribute `axis`."""

MAX_GROUP_NODES = 256
"""Maximum number of nodes of a group."""

Perm = tuple[int, ...]


@dataclass
class _Group:
    """Nodes that are to read values before they are transposed.

    Attributes:
        perm: the permutation.
        entries: results of the Transposes before the group, and their inputs.
        values: the entries, and the results of the group's nodes.
        nodes: numbers of the nodes.
        ends: results of Transposes behind the group that undo the permutation.
    """

    perm: Perm
    entries: dict[str, str] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)
    nodes: list[int] = field(default_factory=list)
    ends: set[str] = field(default_factory=set)


class TransposePushing(Rewrite):
    """Finds the groups of nodes that save Transposes in another order of axes."""

    title = "transposes move through nodes"

    def new_nodes(self) -> list[Op] | None:
        """See `Rewrite.new_nodes`."""
        self._readers = self._graph.readers
        self._perms: dict[str, Perm] = {}
        for op in self._graph.ops:
            if op.op_type == "Transpose" and self._are_known(*op.outputs):
                self._perms[op.outputs[0]] = tuple(permutation(op, len(self._values[op.outputs[0]].sizes)))
        used: set[int | str] = set()
        groups = []
        for name in self._perms:
            group = self._grown(name)
            gain = self._gain(group)
            # A Transpose can cancel only once.
            members: set[int | str] = {*group.nodes, *group.entries, *group.ends}
            if group.nodes and gain > 0 and used.isdisjoint(members):
                used |= members
                groups.append(group)
        return self._written(groups) if groups else None

    def _enter(self, group: _Group, name: str) -> list[int]:
        """Add an entry to a group; return the numbers of its readers."""
        group.entries[name] = self._graph.ops[self._graph.makers[name]].inputs[0]
        group.values.add(name)
        return self._readers.get(name, [])

    def _grown(self, name: str) -> _Group:
        """Return the largest group behind a Transpose."""
        group = _Group(self._perms[name])
        names = [*self._enter(group, name)]
        while names and len(group.nodes) < MAX_GROUP_NODES:
            node_number = names.pop(0)
            op = self._graph.ops[node_number]
            if node_number == OUTSIDE_GRAPH or node_number in group.nodes or not self._fits(op, group):
                continue
            for operand in op.inputs:
                if self._perms.get(operand) == group.perm and operand not in group.values:
                    names += self._enter(group, operand)
            group.nodes.append(node_number)
            group.values.update(output for output in op.outputs if output)
            names += [reader for output in op.outputs for reader in self._readers.get(output, ())]
        group.nodes.sort()
        return group

    def _fits(self, op: Op, group: _Group) -> bool:
        """Whether a node can read its inputs in the other order of axes."""
        axes = row_axes(op, self._analysis)
        if not (
            axes
            or op.op_type in ELEMENTWISE_OPERATORS | OPERATORS_WITH_AXIS | {"Slice"}
            or is_quantized_whole(op, self._analysis)
        ):
            return False
        rank = len(group.perm)
        if not all(name and self._are_known(name) and len(self._values[name].sizes) == rank for name in op.outputs):
            return False
        if op.op_type in SOFTMAX:
            if axes is None or (axes[0] == rank - 1) != (group.perm[axes[0]] == rank - 1):
                return False
        elif axes and any(group.perm[axis] != axis for axis in range(axes[0], rank)):
            # The node would normalize other rows, or sum in another order.
            return False
        if op.op_type in ("Slice", "Split") and not self._has_constants(op):
            return False
        return all(self._can_read(name, op, group) for name in op.inputs[: _data_count(op)])

    def _has_constants(self, op: Op) -> bool:
        """Whether a Slice or Split has constant inputs, and a Slice names its axes."""
        has_axes = op.op_type == "Split" or (len(op.inputs) > 3 and bool(op.inputs[3]))
        return has_axes and all(not name or self._values[name].is_constant for name in op.inputs[1:])

    def _can_read(self, name: str, op: Op, group: _Group) -> bool:
        if not name or name in group.values or self._perms.get(name) == group.perm:
            return True
        if op.op_type not in ELEMENTWISE_OPERATORS or not self._are_known(name):
            return False
        value = self._values[name]
        return self._is_single(name) or (value.is_constant and len(value.sizes) <= len(group.perm))

    def _gain(self, group: _Group) -> int:
        """Return how many bytes fewer are transposed."""
        group_nodes = {*group.nodes}
        gain = 0
        for name in group.values:
            readers_outside = [
                node_number for node_number in self._readers.get(name, ()) if node_number not in group_nodes
            ]
            size = 2 * self._values[name].bytes
            if name in group.entries:
                gain += 0 if readers_outside else size
                continue
            next_transposes = [
                self._graph.ops[n]
                for n in readers_outside
                if n != OUTSIDE_GRAPH and self._graph.ops[n].op_type == "Transpose"
            ]
            if len(next_transposes) < len(readers_outside):
                gain -= size
            for op in next_transposes:
                perm = self._perms.get(op.outputs[0])
                if perm is not None and [group.perm[axis] for axis in perm] == [*range(len(perm))]:
                    gain += size
                    group.ends.add(op.outputs[0])
        return gain

    def _written(self, groups: Sequence[_Group]) -> list[Op]:
        of_node = {node_number: group for group in groups for node_number in group.nodes}
        names: dict[tuple[int, str], str] = {}
        for node_number, op in enumerate(self._graph.ops):
            group = of_node.get(node_number)
            if group is None:
                self._ops.append(op)
                continue
            self._ops.append(new_op := self._adapt(op, group, names))
            for output, name in zip(op.outputs, new_op.outputs, strict=True):
                if any(reader not in group.nodes for reader in self._readers.get(output, ())):
                    self._add("Transpose", [name], output, perm=group.perm)
        return self._ops

    def _adapt(self, op: Op, group: _Group, names: dict[tuple[int, str], str]) -> Op:
        """Return a node in the other order of axes; `names` has values' names in that order, by group and name."""
        rank = len(group.perm)
        inputs = [*op.inputs]
        for k, name in enumerate(inputs[: _data_count(op)]):
            if name:
                inputs[k] = group.entries.get(name) or names.get((id(group), name)) or self._constant(name, group)
        for output in op.outputs:
            names[id(group), output] = self._graph.new_name(output, "transposed")
        changes: dict[str, Any] = {}
        if op.op_type in OPERATORS_WITH_AXIS:
            changes["axis"] = group.perm[op.get("axis", -1 if op.op_type in SOFTMAX else 0) % rank]
        if op.op_type == "Slice":
            axes = [group.perm[int(axis) % rank] for axis in self._graph.constants.read(op.inputs[3])]
            inputs[3] = self._integers(op.inputs[3], axes)
        return op.copy_with(inputs, [names[id(group), output] for output in op.outputs], **changes)

    def _constant(self, name: str, group: _Group) -> str:
        if self._is_single(name):
            return name
        array = self._graph.constants.read(name)
        wide = array.reshape((*(1,) * (len(group.perm) - array.ndim), *array.shape))
        # Axis perm[k] of the new order is axis k of the old one.
        return self._graph.constant(name, np.transpose(wide, np.argsort(group.perm)))


def _data_count(op: Op) -> int:
    """Return the number of inputs whose elements a node combines or moves."""
    return len(op.inputs) if op.op_type in ELEMENTWISE_OPERATORS or op.op_type == "Concat" else 1
