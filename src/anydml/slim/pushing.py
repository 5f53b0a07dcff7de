"""Transposes moved through nodes that compute: axes are renamed there, and what stands at both ends cancels.

A group of nodes reads transposed values only, beside constants. It does the same in the order of axes from before, with
its constants transposed and its axes renamed; what leaves it is transposed behind it. That is worth it where more bytes
are transposed before the group than behind it, as where another Transpose follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper, numpy_helper

from anydml.onnx.graph import opsets_of, plain_domain
from anydml.onnx.training_nodes import FreshNames
from anydml.slim.constants import Constants
from anydml.slim.following import Followed, Following
from anydml.slim.walking import captured

_NAMES = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu
    Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean
    Min Mish Mod Mul Neg Not Or Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt
    Sub Sum Tan Tanh ThresholdedRelu Where Xor
"""

ELEMENTWISE = frozenset(_NAMES.split())
"""Operators whose result's elements are made of those at the same place, after broadcasting."""

ALONG = frozenset(("Concat", "Softmax", "LogSoftmax", "Split"))
"""Operators with an attribute `axis`."""

ONE_AXIS = 13
"""Opset from which on Softmax is along one axis; before, it is along all from that one on."""

MOST = 256
"""Nodes of a group."""


@dataclass
class _Group:
    """Nodes that are to read values in the order of axes from before a transposition.

    Attributes:
        perm: of the transposition.
        values: those that would be in that order, each with what makes them: a Transpose at the entry, or a node.
        nodes: numbers of the nodes inside.
    """

    perm: tuple[int, ...]
    entries: dict[str, str] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)
    nodes: list[int] = field(default_factory=list)


class Pushing:
    """Looks for groups in one model.

    Args:
        model: the model, whose movement is composed already.
        following: its values.
        constants: reads its constants.
    """

    def __init__(self, model: ModelProto, following: Following, constants: Constants) -> None:
        self._model, self._following, self._constants = model, following, constants
        self._fresh = FreshNames(model)
        self._opset = opsets_of(model.opset_import).get("", 0)
        self._nodes = [*model.graph.node]
        self._users: dict[str, list[int]] = {}
        self._bound = {output.name for output in model.graph.output}
        self._perms: dict[str, tuple[str, tuple[int, ...]]] = {}
        for number, node in enumerate(self._nodes):
            for name in node.input:
                self._users.setdefault(name, []).append(number)
            self._bound.update(captured(node))
            perm = self._permutation(node)
            if perm is not None:
                self._perms[node.output[0]] = node.input[0], perm

    def pushed(self) -> ModelProto | None:
        """The model with all groups that are worth it; None where there is none."""
        taken: set[int] = set()
        groups = []
        for name, (_, perm) in self._perms.items():
            group = self._grown(name, perm)
            if group.nodes and taken.isdisjoint(group.nodes) and self._gain(group) > 0:
                taken.update(group.nodes)
                groups.append(group)
        return self._written(groups) if groups else None

    def _permutation(self, node: NodeProto) -> tuple[int, ...] | None:
        if node.op_type != "Transpose" or plain_domain(node.domain):
            return None
        value = self._following.values.get(node.output[0])
        if value is None or value.tensor is None:
            return None
        given = next((tuple(each.ints) for each in node.attribute if each.name == "perm"), None)
        return given or tuple(reversed(range(len(value.sizes))))

    def _grown(self, name: str, perm: tuple[int, ...]) -> _Group:
        """All that can be done in the other order from one Transpose on."""
        group = _Group(perm, {name: self._perms[name][0]}, {name})
        waiting = [*self._users.get(name, ())]
        while waiting and len(group.nodes) < MOST:
            number = waiting.pop(0)
            node = self._nodes[number]
            if number in group.nodes or not self._fits(node, group):
                continue
            for each in node.input:
                if self._perms.get(each, ("", ()))[1] == perm and each not in group.values:
                    group.entries[each] = self._perms[each][0]
                    group.values.add(each)
                    waiting += self._users[each]
            group.nodes.append(number)
            group.values.update(output for output in node.output if output)
            waiting += [user for output in node.output for user in self._users.get(output, ())]
        group.nodes.sort()
        return group

    def _fits(self, node: NodeProto, group: _Group) -> bool:
        """Whether a node can read its inputs in the other order."""
        axes = row_axes(node, self._following.values, self._constants, self._opset)
        if plain_domain(node.domain) or not (axes or node.op_type in ELEMENTWISE | ALONG | {"Slice"}):
            return False
        rank = len(group.perm)
        values = self._following.values
        if any(not name or values[name].tensor is None or len(values[name].sizes) != rank for name in node.output):
            return False
        if node.op_type in ("Softmax", "LogSoftmax"):
            if axes is None or (axes[0] == rank - 1) != (group.perm[axes[0]] == rank - 1):
                return False
        elif axes and any(len(group.perm) != rank or group.perm[axis] != axis for axis in range(axes[0], rank)):
            # Rows stay as they are, and so do sums along them.
            return False
        count = len(node.input) if node.op_type in ELEMENTWISE or node.op_type == "Concat" else 1
        if node.op_type in ("Slice", "Split") and not self._is_plain(node, rank):
            return False
        return all(self._can_read(name, node, group) for name in node.input[:count])

    def _is_plain(self, node: NodeProto, rank: int) -> bool:
        """Whether the numbers of a Slice or Split are known."""
        return all(not name or self._following.values[name].is_constant for name in node.input[1:]) and (
            node.op_type == "Split" or (len(node.input) > 3 and bool(node.input[3]))
        )

    def _can_read(self, name: str, node: NodeProto, group: _Group) -> bool:
        if name in group.values or self._perms.get(name, ("", ()))[1] == group.perm:
            return True
        value = self._following.values.get(name)
        if not name or value is None or value.tensor is None or node.op_type not in ELEMENTWISE:
            return not name
        return value.tensor.size == 1 or (value.is_constant and len(value.sizes) <= len(group.perm))

    def _gain(self, group: _Group) -> int:
        """Bytes that are not transposed any more, less those that are instead."""
        inside = {*group.nodes}
        gain = 0
        for name in group.values:
            others = [number for number in self._users.get(name, ()) if number not in inside]
            size = 2 * self._bytes(name)
            if name in group.entries:
                gain += 0 if others or name in self._bound else size
                continue
            again = [number for number in others if self._nodes[number].op_type == "Transpose"]
            if name in self._bound or len(again) < len(others):
                gain -= size
            for number in again:
                perm = self._permutation(self._nodes[number])
                if perm is not None and [group.perm[axis] for axis in perm] == [*range(len(perm))]:
                    gain += size
        return gain

    def _bytes(self, name: str) -> int:
        tensor = self._following.values[name].tensor
        return 0 if tensor is None else tensor.nbytes

    def _written(self, groups: Sequence[_Group]) -> ModelProto:
        result = ModelProto()
        result.CopyFrom(self._model)
        del result.graph.node[:]
        of_node = {number: group for group in groups for number in group.nodes}
        names: dict[tuple[int, str], str] = {}
        for number, node in enumerate(self._nodes):
            group = of_node.get(number)
            if group is None:
                result.graph.node.append(node)
                continue
            new = self._renamed(node, group, names, result)
            result.graph.node.append(new)
            for output, name in zip(node.output, new.output, strict=True):
                if output in self._bound or any(user not in group.nodes for user in self._users.get(output, ())):
                    back = helper.make_node("Transpose", [name], [output], self._fresh.new(output, "back"))
                    back.attribute.append(helper.make_attribute("perm", group.perm))
                    result.graph.node.append(back)
        return result

    def _renamed(
        self, node: NodeProto, group: _Group, names: dict[tuple[int, str], str], result: ModelProto
    ) -> NodeProto:
        """A node in the other order of axes."""
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.input[:], copy.output[:]
        rank = len(group.perm)
        for k, name in enumerate(node.input):
            is_number = k > 0 and node.op_type not in ELEMENTWISE | {"Concat"}
            copy.input.append(name if is_number else self._input(name, group, names, result))
        for output in node.output:
            names[id(group), output] = self._fresh.new(output, "turned")
            copy.output.append(names[id(group), output])
        if node.op_type in ALONG:
            axis = group.perm[_axis(node, -1 if "oftmax" in node.op_type else 0) % rank]
            kept = [each for each in copy.attribute if each.name != "axis"]
            del copy.attribute[:]
            copy.attribute.extend([*kept, helper.make_attribute("axis", axis)])
        if node.op_type == "Slice":
            axes = [group.perm[int(axis) % rank] for axis in self._constants.read(node.input[3])]
            copy.input[3] = self._constant(node.input[3], np.array(axes, np.int64), result)
        return copy

    def _input(self, name: str, group: _Group, names: Mapping[tuple[int, str], str], result: ModelProto) -> str:
        if not name or name in group.entries:
            return group.entries.get(name, "")
        if (id(group), name) in names:
            return names[id(group), name]
        value = self._following.values[name]
        if value.tensor is not None and value.tensor.size == 1:
            return name
        array = self._constants.read(name)
        wide = array.reshape((*(1,) * (len(group.perm) - array.ndim), *array.shape))
        # Axis perm[k] of the new order is axis k of the old one.
        turned = np.transpose(wide, np.argsort(group.perm))
        return self._constant(name, turned, result)

    def _constant(self, base: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], result: ModelProto) -> str:
        name = self._fresh.new(base, "turned")
        result.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def _axis(node: NodeProto, default: int) -> int:
    found: Iterator[AttributeProto] = (each for each in node.attribute if each.name == "axis")
    return next((each.i for each in found), default)


def row_axes(node: NodeProto, values: Mapping[str, Followed], constants: Constants, opset: int) -> list[int] | None:
    """Along which axes a node computes rows, or reduces them; None of another node, or where they are not known."""
    value = values.get(node.input[0]) if node.input else None
    if plain_domain(node.domain) or value is None or value.tensor is None or not value.sizes:
        return None
    rank, given = len(value.sizes), {each.name: each for each in node.attribute}
    if node.op_type in ("Softmax", "LogSoftmax") and opset >= ONE_AXIS:
        return [_axis(node, -1) % rank]
    if node.op_type == "LayerNormalization":
        return [*range(_axis(node, -1) % rank, rank)] if len(node.output) == 1 else None
    if node.op_type.startswith("Reduce"):
        axes = [*given["axes"].ints] if "axes" in given else []
        if len(node.input) > 1 and node.input[1] in constants:
            axes = constants.read(node.input[1]).tolist()
        return sorted(axis % rank for axis in axes) or None
    return None
