"""Unroll If and Loop nodes whose conditions and trip counts are constant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from anydml.errors import ModelError
from anydml.onnx.budget import UNQUERIED_GROWTH, Budget
from anydml.onnx.checks import MAX_NODES, NODE_BYTES
from anydml.onnx.folding import fold
from anydml.onnx.graph import Opsets, label, opsets_of
from anydml.onnx.graph_values import MAX_SHAPE_ELEMENTS, Array, Tensor
from anydml.onnx.read import read_node
from anydml.onnx.tensor_protos import tensor_shape, to_array
from anydml.onnx.training_nodes import FreshNames
from anydml.onnx.walk import plain_domain, subgraphs


def unroll(model: ModelProto) -> ModelProto:
    """Return the model with all Ifs and Loops unrolled that have constant conditions; other nodes are unchanged.

    Raises:
        ModelError: the result would have too many nodes, or there is not enough memory for them.
    """
    if not any(proto.op_type in ("If", "Loop") and not plain_domain(proto.domain) for proto in model.graph.node):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    unrolling = _Unrolling(model)
    copy.graph.node.extend(unrolling.nodes(model.graph.node))
    return copy


class _Unrolling:
    def __init__(self, model: ModelProto) -> None:
        self._fresh = FreshNames(model)
        self._opsets: Opsets = opsets_of(model.opset_import)
        self._known: dict[str, Tensor] = {}
        self._count = self._bytes = self._asked = 0
        inputs = {value.name for value in model.graph.input}
        for tensor in model.graph.initializer:
            if tensor.name not in inputs and not tensor.external_data:
                self._keep(tensor.name, tensor)

    def _keep(self, name: str, tensor: TensorProto) -> None:
        if math.prod(tensor_shape(tensor)) <= MAX_SHAPE_ELEMENTS and tensor.data_type != TensorProto.STRING:
            self._known[name] = Tensor.of(to_array(tensor, Budget()))

    def nodes(self, protos: Iterable[NodeProto]) -> list[NodeProto]:
        """Return the nodes that replace `protos`."""
        unrolled: list[NodeProto] = []
        for proto in protos:
            is_own = not plain_domain(proto.domain)
            if is_own and proto.op_type == "If":
                unrolled += self._branch(proto)
            elif is_own and proto.op_type == "Loop":
                unrolled += self._rounds(proto)
            else:
                self._fold(proto)
                self._count_nodes(proto, 0)
                unrolled.append(proto)
        return unrolled

    def _count_nodes(self, proto: NodeProto, size: int) -> None:
        self._count += 1
        self._bytes += size
        if self._count > MAX_NODES:
            message = f"{label(proto.name, '', proto.op_type)}: the model's loops come to more than {MAX_NODES} nodes"
            raise ModelError(message, proto.op_type, None, "loops must be unrolled")
        unrolled_bytes = 4 * self._bytes + NODE_BYTES * self._count
        if unrolled_bytes > self._asked + UNQUERIED_GROWTH:
            Budget().ask("the model's loops", "unrolling them", unrolled_bytes)
            self._asked = unrolled_bytes

    def _fold(self, proto: NodeProto) -> None:
        """Record the outputs of a node whose inputs are constant."""
        if not all(name in self._known for name in proto.input):
            return
        try:
            node = read_node(proto, self._opsets, proto.name)
            results = fold(node, [self._known[name] for name in proto.input])
        except ModelError:
            # The error is raised again when the graph is read or run.
            return
        pairs = ((name, value) for name, value in zip(proto.output, results or (), strict=False))
        self._known.update((name, value) for name, value in pairs if isinstance(value, Tensor))

    def _number(self, name: str) -> int | None:
        value = self._known.get(name)
        return None if value is None or value.array is None or value.size != 1 else int(value.array.reshape(-1)[0])

    def _branch(self, proto: NodeProto) -> list[NodeProto]:
        is_true = self._number(proto.input[0])
        if is_true is None:
            return [proto]
        name = "then_branch" if is_true else "else_branch"
        graph = next(attribute.g for attribute in proto.attribute if attribute.name == name)
        return self._inline(graph, (), proto.output)

    def _rounds(self, proto: NodeProto) -> list[NodeProto]:
        graph = next(attribute.g for attribute in proto.attribute if attribute.name == "body")
        max_rounds = self._number(proto.input[0]) if proto.input[0] else None
        is_counted = len(proto.input) < 2 or not proto.input[1]
        goes_on = 1 if is_counted else self._number(proto.input[1])
        if (proto.input[0] and max_rounds is None) or goes_on is None or (is_counted and max_rounds is None):
            return [proto]
        round_nodes: list[NodeProto] = []
        carried, count = [*proto.input[2:]], len(proto.input) - 2
        rows: list[list[str]] = []
        condition = self._constant(round_nodes, "condition", np.array(True))
        done = 0
        while goes_on and (max_rounds is None or done < max_rounds):
            iteration_name = self._constant(round_nodes, "iteration", np.array(done, np.int64))
            names = [self._fresh.new(f"{proto.name or 'Loop'}", "round") for _ in graph.output]
            round_nodes += self._inline(graph, (iteration_name, condition, *carried), names)
            goes_on = 1 if is_counted else self._number(names[0])
            if goes_on is None:
                return [proto]
            carried, done = names[1 : 1 + count], done + 1
            rows.append(names[1 + count :])
        scanned = proto.output[count:]
        round_nodes += self._handed_on(carried, proto.output)
        for k, output in enumerate(scanned):
            if not rows:
                empty = _no_rows(graph.output[1 + count + k])
                if empty is None:
                    return [proto]
                round_nodes.append(helper.make_node("Constant", [], [output], name=output, value=empty))
                continue
            parts = self._fresh.new(output or "scan", "parts")
            round_nodes.append(helper.make_node("SequenceConstruct", [row[k] for row in rows], [parts], name=parts))
            round_nodes.append(
                helper.make_node("ConcatFromSequence", [parts], [output], name=output, axis=0, new_axis=1)
            )
        return round_nodes

    def _constant(self, new_nodes: list[NodeProto], base: str, value: Array) -> str:
        name = self._fresh.new("Loop", base)
        new_nodes.append(helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(value)))
        self._known[name] = Tensor.of(value)
        return name

    def _handed_on(self, names: Sequence[str], outputs: Sequence[str]) -> list[NodeProto]:
        copies = []
        for name, output in zip(names, outputs, strict=False):
            if output:
                copies.append(helper.make_node("Identity", [name], [output], name=self._fresh.new(output, "handed_on")))
                self._fold(copies[-1])
        return copies

    def _inline(self, graph: GraphProto, inputs: Sequence[str], outputs: Sequence[str]) -> list[NodeProto]:
        """Inline a subgraph under fresh names, with its inputs and outputs connected to given values."""
        renamed = dict(zip((value.name for value in graph.input), inputs, strict=False))
        new_nodes: list[NodeProto] = []
        for tensor in graph.initializer:
            name = renamed[tensor.name] = self._fresh.new(tensor.name, "value")
            self._keep(name, tensor)
            new_nodes.append(helper.make_node("Constant", [], [name], name=name, value=tensor))
            self._count_nodes(new_nodes[-1], tensor.ByteSize())
        protos = []
        for proto in graph.node:
            for name in proto.output:
                if name:
                    renamed[name] = self._fresh.new(name, "value")
            copied = NodeProto()
            copied.CopyFrom(proto)
            copied.name = self._fresh.new(proto.name or proto.op_type, "node")
            _rename(copied, renamed)
            self._count_nodes(copied, copied.ByteSize())
            protos.append(copied)
        new_nodes += self.nodes(protos)
        return new_nodes + self._handed_on([renamed.get(value.name, value.name) for value in graph.output], outputs)


def _no_rows(value: ValueInfoProto) -> TensorProto | None:
    """Return the empty scan output of a loop without iterations; None if its shape is not declared."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return helper.make_tensor(value.name, tensor.elem_type, (0, *(dim.dim_value for dim in tensor.shape.dim)), [])


def _rename(proto: NodeProto, renamed: dict[str, str]) -> None:
    """Rename values in a node and its subgraphs, in place."""
    proto.input[:] = [renamed.get(name, name) for name in proto.input]
    proto.output[:] = [renamed.get(name, name) for name in proto.output]
    for graph in subgraphs(proto):
        for inner in graph.node:
            _rename(inner, renamed)
        for value in graph.output:
            value.name = renamed.get(value.name, value.name)
