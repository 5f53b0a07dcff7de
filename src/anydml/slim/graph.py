"""A model's main graph while it is rewritten: nodes and constants are never changed, only replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property
from typing import Any

from onnx import AttributeProto, ModelProto, NodeProto, helper

from anydml.files.folder import Folder
from anydml.onnx.graph import opsets_of
from anydml.onnx.training_nodes import FreshNames
from anydml.onnx.values import Array
from anydml.onnx.walk import bodies, plain_domain, subgraphs
from anydml.slim.constants import Constants

OUTSIDE = -1
"""The number of a reader that is no node of the main graph: a graph inside of a node, or whoever runs the model."""


class Op:
    """A node of a main graph.

    Attributes:
        proto: the node as ONNX stores it.
        kind: its operator, with the domain in front unless that is ONNX's own.
        inputs: names of values, empty for omitted ones.
        outputs: the same.
        captured: names that graphs inside of the node read, some of which may be their own.
    """

    __slots__ = ("captured", "inputs", "kind", "outputs", "proto")

    def __init__(self, proto: NodeProto) -> None:
        domain = plain_domain(proto.domain)
        self.proto = proto
        self.kind = f"{domain}:{proto.op_type}" if domain else proto.op_type
        self.inputs, self.outputs = tuple(proto.input), tuple(proto.output)
        self.captured = tuple(_captured(proto))

    @classmethod
    def make(cls, kind: str, inputs: Iterable[str], outputs: Iterable[str], name: str, **attributes: Any) -> Op:
        """A new node of ONNX's own domain."""
        return cls(helper.make_node(kind, [*inputs], [*outputs], name, **attributes))

    def attribute(self, name: str) -> AttributeProto | None:
        """An attribute; None if the node does not have it."""
        return next((each for each in self.proto.attribute if each.name == name), None)

    def integer(self, name: str, default: int) -> int:
        """An attribute of type INT, or `default`."""
        found = self.attribute(name)
        return default if found is None else found.i

    def replaced(
        self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None, name: str = "", **more: Any
    ) -> Op:
        """The same node with other inputs, outputs, name or attributes; an attribute that is None is left out."""
        inputs = self.inputs if inputs is None else tuple(inputs)
        outputs = self.outputs if outputs is None else tuple(outputs)
        if (inputs, outputs, name or self.proto.name) == (self.inputs, self.outputs, self.proto.name) and not more:
            return self
        proto = NodeProto()
        proto.CopyFrom(self.proto)
        del proto.input[:], proto.output[:]
        proto.input.extend(inputs)
        proto.output.extend(outputs)
        proto.name = name or proto.name
        for key, value in more.items():
            _keep(proto.attribute, {each.name for each in proto.attribute} - {key})
            if value is not None:
                proto.attribute.append(helper.make_attribute(key, value))
        return Op(proto)


class Graph:
    """The main graph of a model.

    Attributes:
        model: has the inputs, outputs, functions and metadata.
        ops: the nodes, in order.
        constants: of this graph, and of all that are made of it.
        opset: version of ONNX's own domain.
        outputs: names of the outputs.
    """

    def __init__(self, model: ModelProto, ops: Sequence[Op], constants: Constants, fresh: FreshNames) -> None:
        self.model, self.ops, self.constants, self._fresh = model, ops, constants, fresh
        self.opset = opsets_of(model.opset_import).get("", 0)
        self.outputs = [output.name for output in model.graph.output]

    @classmethod
    def of(cls, model: ModelProto, folder: Folder | None = None) -> Graph:
        """The graph of a model whose external data lies in `folder`."""
        return cls(model, [*map(Op, model.graph.node)], Constants(model, folder), FreshNames(model))

    def with_ops(self, ops: Sequence[Op]) -> Graph:
        """The graph with other nodes, those of them that something needs or whose operators are not ONNX's own."""
        needed = {*self.outputs}
        found = []
        for op in reversed(ops):
            if ":" in op.kind or not op.outputs or not needed.isdisjoint(op.outputs):
                found.append(op)
                needed.update(op.inputs, op.captured)
        return Graph(self.model, found[::-1], self.constants, self._fresh)

    @cached_property
    def makers(self) -> dict[str, int]:
        """The numbers of the nodes that make values, by name."""
        return {name: number for number, op in enumerate(self.ops) for name in op.outputs if name}

    @cached_property
    def users(self) -> dict[str, list[int]]:
        """The numbers of those that read values, by name, once for each time."""
        found: dict[str, list[int]] = {}
        for number, op in enumerate(self.ops):
            for name in op.inputs:
                found.setdefault(name, []).append(number)
            for name in op.captured:
                found.setdefault(name, []).append(OUTSIDE)
        for name in self.outputs:
            found.setdefault(name, []).append(OUTSIDE)
        return found

    def maker(self, name: str) -> Op | None:
        """The node that makes a value; None of inputs and initializers."""
        return self.ops[self.makers[name]] if name in self.makers else None

    def is_read_once(self, name: str) -> bool:
        """Whether one node alone reads a value."""
        users = self.users.get(name, ())
        return len(users) == 1 and OUTSIDE not in users

    def new_name(self, base: str, what: str) -> str:
        """A name that nothing has."""
        return self._fresh.new(base, what)

    def constant(self, base: str, array: Array) -> str:
        """The name of a constant, which is new if there is none like it."""
        return self.constants.new(array, lambda: self._fresh.new(base, "constant"))

    def written(self) -> ModelProto:
        """The model of this graph, without the initializers and declarations that only nodes before it needed."""
        result = ModelProto()
        result.CopyFrom(self.model)
        graph = result.graph
        del graph.node[:]
        graph.node.extend(op.proto for op in self.ops)
        used = self.users.keys()
        before = {name for node in self.model.graph.node for name in (*node.input, *_captured(node))}
        inputs = {value.name for value in graph.input}
        gone = {tensor.name for tensor in graph.initializer if tensor.name in before - used - inputs}
        _keep(graph.initializer, {tensor.name for tensor in graph.initializer} - gone)
        graph.initializer.extend(tensor for name, tensor in self.constants.added() if name in used)
        _keep(graph.value_info, self.makers.keys())
        annotations = [each for each in graph.quantization_annotation if each.tensor_name not in gone]
        del graph.quantization_annotation[:]
        graph.quantization_annotation.extend(annotations)
        return result


def _captured(node: NodeProto) -> Iterator[str]:
    for body in bodies(subgraphs(node)):
        for inner in body.node:
            yield from inner.input
        for output in body.output:
            yield output if isinstance(output, str) else output.name


def _keep(repeated: Any, names: Set[str]) -> None:
    """Keep only those of a repeated field that have some names."""
    for k in reversed(range(len(repeated))):
        if repeated[k].name not in names:
            del repeated[k]
