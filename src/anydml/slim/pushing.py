"""Transposes moved through nodes that compute: axes are renamed there, and what stands at both ends cancels.

A group of nodes reads transposed values only, beside constants. It does the same in the order of axes from before, with
its constants transposed and its axes renamed; what leaves it is transposed behind it. That is worth it where more bytes
are transposed before the group than behind it, as where another Transpose follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anydml.slim.computing import ELEMENTWISE, row_axes
from anydml.slim.graph import OUTSIDE, Op
from anydml.slim.rewriting import Rewriting

ALONG = frozenset(("Concat", "Softmax", "LogSoftmax", "Split"))
"""Operators with an attribute `axis`."""

MOST = 256
"""Nodes of a group."""


@dataclass
class _Group:
    """Nodes that are to read values in the order of axes from before a transposition.

    Attributes:
        perm: of the transposition.
        entries: what Transposes at the entry make, and of what.
        values: those that would be in that order: the entries, and what the nodes inside make.
        nodes: numbers of the nodes inside.
        ends: what Transposes behind the group make that undo the transposition.
    """

    perm: tuple[int, ...]
    entries: dict[str, str] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)
    nodes: list[int] = field(default_factory=list)
    ends: set[str] = field(default_factory=set)


class Pushing(Rewriting):
    """Looks for groups."""

    def rewritten(self) -> list[Op] | None:
        """The nodes with all groups that are worth it; None where there is none."""
        self._users = self._graph.users
        self._perms: dict[str, tuple[str, tuple[int, ...]]] = {}
        for op in self._graph.ops:
            perm = self._permutation(op)
            if perm is not None:
                self._perms[op.outputs[0]] = op.inputs[0], perm
        taken: set[int | str] = set()
        groups = []
        for name, (_, perm) in self._perms.items():
            group = self._grown(name, perm)
            gain = self._gain(group)
            # A Transpose cancels once only.
            own: set[int | str] = {*group.nodes, *group.entries, *group.ends}
            if group.nodes and gain > 0 and taken.isdisjoint(own):
                taken |= own
                groups.append(group)
        return self._written(groups) if groups else None

    def _permutation(self, op: Op) -> tuple[int, ...] | None:
        value = self._values.get(op.outputs[0]) if op.kind == "Transpose" else None
        if value is None or value.tensor is None:
            return None
        perm = op.attribute("perm")
        return tuple(perm.ints) if perm is not None else tuple(reversed(range(len(value.sizes))))

    def _grown(self, name: str, perm: tuple[int, ...]) -> _Group:
        """Return the largest group behind one Transpose."""
        group = _Group(perm, {name: self._perms[name][0]}, {name})
        waiting = [*self._users.get(name, ())]
        while waiting and len(group.nodes) < MOST:
            number = waiting.pop(0)
            op = self._graph.ops[number]
            if number == OUTSIDE or number in group.nodes or not self._fits(op, group):
                continue
            for each in op.inputs:
                if self._perms.get(each, ("", ()))[1] == perm and each not in group.values:
                    group.entries[each] = self._perms[each][0]
                    group.values.add(each)
                    waiting += self._users[each]
            group.nodes.append(number)
            group.values.update(output for output in op.outputs if output)
            waiting += [user for output in op.outputs for user in self._users.get(output, ())]
        group.nodes.sort()
        return group

    def _fits(self, op: Op, group: _Group) -> bool:
        """Whether a node can read its inputs in the other order."""
        axes = row_axes(op, self._following)
        if not (axes or op.kind in ELEMENTWISE | ALONG | {"Slice"}):
            return False
        rank = len(group.perm)
        values = self._values
        if any(not name or values[name].tensor is None or len(values[name].sizes) != rank for name in op.outputs):
            return False
        if op.kind in ("Softmax", "LogSoftmax"):
            if axes is None or (axes[0] == rank - 1) != (group.perm[axes[0]] == rank - 1):
                return False
        elif axes and any(group.perm[axis] != axis for axis in range(axes[0], rank)):
            # Rows stay as they are, and so do sums along them.
            return False
        count = len(op.inputs) if op.kind in ELEMENTWISE or op.kind == "Concat" else 1
        if op.kind in ("Slice", "Split") and not self._is_plain(op):
            return False
        return all(self._can_read(name, op, group) for name in op.inputs[:count])

    def _is_plain(self, op: Op) -> bool:
        """Whether the numbers of a Slice or Split are known."""
        return all(not name or self._values[name].is_constant for name in op.inputs[1:]) and (
            op.kind == "Split" or (len(op.inputs) > 3 and bool(op.inputs[3]))
        )

    def _can_read(self, name: str, op: Op, group: _Group) -> bool:
        if name in group.values or self._perms.get(name, ("", ()))[1] == group.perm:
            return True
        value = self._values.get(name)
        if not name or value is None or value.tensor is None or op.kind not in ELEMENTWISE:
            return not name
        return value.tensor.size == 1 or (value.is_constant and len(value.sizes) <= len(group.perm))

    def _gain(self, group: _Group) -> int:
        """Return the bytes that need not be transposed any more, minus those that must be instead."""
        inside = {*group.nodes}
        gain = 0
        for name in group.values:
            others = [number for number in self._users.get(name, ()) if number not in inside]
            size = 2 * self._values[name].bytes
            if name in group.entries:
                gain += 0 if others else size
                continue
            again = [n for n in others if n != OUTSIDE and self._graph.ops[n].kind == "Transpose"]
            if len(again) < len(others):
                gain -= size
            for number in again:
                perm = self._permutation(self._graph.ops[number])
                if perm is not None and [group.perm[axis] for axis in perm] == [*range(len(perm))]:
                    gain += size
                    group.ends.add(self._graph.ops[number].outputs[0])
        return gain

    def _written(self, groups: Sequence[_Group]) -> list[Op]:
        of_op = {number: group for group in groups for number in group.nodes}
        names: dict[tuple[int, str], str] = {}
        for number, op in enumerate(self._graph.ops):
            group = of_op.get(number)
            if group is None:
                self._ops.append(op)
                continue
            self._ops.append(new := self._renamed(op, group, names))
            for output, name in zip(op.outputs, new.outputs, strict=True):
                if any(user not in group.nodes for user in self._users.get(output, ())):
                    self._add("Transpose", [name], output, perm=group.perm)
        return self._ops

    def _renamed(self, op: Op, group: _Group, names: dict[tuple[int, str], str]) -> Op:
        """A node in the other order of axes; `names` has what is in that order by group and name."""
        rank = len(group.perm)
        count = len(op.inputs) if op.kind in ELEMENTWISE or op.kind == "Concat" else 1
        inputs = [*op.inputs]
        for k, name in enumerate(inputs[:count]):
            if name:
                inputs[k] = group.entries.get(name) or names.get((id(group), name)) or self._constant(name, group)
        for output in op.outputs:
            names[id(group), output] = self._graph.new_name(output, "transposed")
        more: dict[str, Any] = {}
        if op.kind in ALONG:
            more["axis"] = group.perm[op.integer("axis", -1 if "oftmax" in op.kind else 0) % rank]
        if op.kind == "Slice":
            axes = [group.perm[int(axis) % rank] for axis in self._graph.constants.read(op.inputs[3])]
            inputs[3] = self._integers(op.inputs[3], axes)
        return op.replaced(inputs, [names[id(group), output] for output in op.outputs], **more)

    def _constant(self, name: str, group: _Group) -> str:
        value = self._values[name]
        if value.tensor is not None and value.tensor.size == 1:
            return name
        array = self._graph.constants.read(name)
        wide = array.reshape((*(1,) * (len(group.perm) - array.ndim), *array.shape))
        # Axis perm[k] of the new order is axis k of the old one.
        return self._graph.constant(name, np.transpose(wide, np.argsort(group.perm)))
