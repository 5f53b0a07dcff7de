"""Lowering of a graph to one program: nodes are composed, and stored in scratch only where that is impossible."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from anydml.graph.composer import GraphComposer
from anydml.graph.graph_rules import order
from anydml.graph.nodes import Node
from anydml.graph.reinterpret import is_same_view, reinterpret
from anydml.graph.structs import (
    NAME,
    ConstantDataGraphNodeDesc,
    Graph,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    node_label,
)
from anydml.moves import Access, Fill, Move, Program
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.tensor import Layout, TensorDesc


@dataclass(slots=True)
class _NodeOutput:
    """An output of a node, or an input of the graph.

    Attributes:
        value: the value, with one axis more than the tensor; None for a constant.
        tensor: the output's tensor; None for a constant.
        operand: number of the operand that holds all bytes, if there is one.
    """

    value: Value | None
    tensor: TensorDesc | None
    operand: int | None = None

    def as_input(self, composer: GraphComposer, tensor: TensorDesc, label: str) -> Value:
        """Return the value as an input that has the given tensor."""
        if self.value is not None and self.tensor is not None and is_same_view(self.tensor, tensor):
            return self.value
        if self.operand is None and self.value is not None and self.tensor is not None:
            try:
                return reinterpret(self.value, self.tensor, tensor)
            except NotComposableError as error:
                self.operand = _as_bytes(composer, self.value, self.tensor, f"{label}: {error}")
        if self.operand is None:
            raise AssertionError("an output has a value or an operand")
        return _operand_value(self.operand, tensor, tensor.layout.strides)


def lower_graph(desc: Graph, layouts: tuple[Layout, ...]) -> Program:
    """Lower a valid graph.

    Args:
        desc: the graph.
        layouts: the layouts of its inputs and outputs.
    """
    composer = GraphComposer(NAME)
    graph_inputs = [
        _graph_input(composer, name, tensor, layout)
        for (name, tensor), layout in zip(desc.inputs, layouts, strict=False)
    ]
    places = [composer.output_bytes(name) for name, _ in desc.outputs]
    strides = [layout.strides for layout in layouts[desc.input_count :]]
    feeds = {(edge.to_node_index, edge.to_node_input_index): edge for edge in desc.intermediate_edges}
    graph_feeds = {(edge.to_node_index, edge.to_node_input_index): edge.graph_input_index for edge in desc.input_edges}
    graph_outputs = defaultdict[tuple[int, int], list[int]](list)
    for edge in desc.output_edges:
        graph_outputs[edge.from_node_index, edge.from_node_output_index].append(edge.graph_output_index)
    read = {_source_of(edge) for edge in desc.intermediate_edges}
    node_outputs: dict[tuple[int, int], _NodeOutput] = {}
    for node_number in order(desc)[0]:
        node, label = desc.nodes[node_number], node_label(desc, node_number)
        if isinstance(node, ConstantDataGraphNodeDesc):
            operand = composer.constant_bytes(label, np.frombuffer(node.data, np.uint8))
            node_outputs[node_number, 0] = _NodeOutput(None, None, operand)
            continue
        values = []
        for k, (_, tensor) in enumerate(node.inputs):
            feed = feeds.get((node_number, k))
            source = graph_inputs[graph_feeds[node_number, k]] if feed is None else node_outputs[_source_of(feed)]
            values.append(source.as_input(composer, tensor, label))
        _add_node(
            composer,
            Node(composer, label, node.operator, values),
            (node_number, node),
            read,
            node_outputs,
            graph_outputs,
            places,
            strides,
        )
    return composer.program()


def _add_node(
    composer: GraphComposer,
    node: Node,
    numbered: tuple[int, OperatorGraphNodeDesc],
    read: set[tuple[int, int]],
    node_outputs: dict[tuple[int, int], _NodeOutput],
    graph_outputs: dict[tuple[int, int], list[int]],
    places: list[int],
    strides: list[tuple[int, ...]],
) -> None:
    """Compose or store a node's outputs, and write those that are outputs of the graph."""
    node_number, operator_node = numbered
    for k, (_, tensor) in enumerate(operator_node.outputs):
        outputs = graph_outputs[node_number, k]
        try:
            value = node.value(k)
        except NotComposableError as error:
            if (node_number, k) not in read and len(outputs) == 1:
                node.store(k, places[outputs[0]], strides[outputs[0]])
                continue
            operand = composer.scratch_bytes(tensor.size_in_bytes, str(error))
            _clear(composer, operand, tensor)
            node_outputs[node_number, k] = _NodeOutput(node.store(k, operand, tensor.layout.strides), tensor, operand)
        else:
            node_outputs[node_number, k] = _NodeOutput(value, tensor)
        for output in outputs:
            composed = node_outputs[node_number, k].value
            if composed is None:
                raise AssertionError("operators return values")
            composer.move(composed.moves(places[output], 0, (*strides[output], composed.element_size)))


def _graph_input(composer: GraphComposer, name: str, tensor: TensorDesc, layout: Layout) -> _NodeOutput:
    size = tensor.data_type.itemsize
    value = composer.input(name, (*tensor.sizes, 1), (*layout.strides, size), size)
    source = value.pieces[0].source
    if layout == tensor.layout and isinstance(source, Access):
        # The buffer has the tensor's own layout, so its bytes can be reinterpreted as another tensor's.
        return _NodeOutput(value, tensor, source.operand)
    return _NodeOutput(value, tensor)


def _source_of(edge: IntermediateGraphEdgeDesc) -> tuple[int, int]:
    return edge.from_node_index, edge.from_node_output_index


def _operand_value(operand: int, tensor: TensorDesc, strides: tuple[int, ...]) -> Value:
    size = tensor.data_type.itemsize
    return Value.of_operand(operand, (*tensor.sizes, 1), (*strides, size), size)


def _as_bytes(composer: GraphComposer, value: Value, tensor: TensorDesc, reason: str) -> int:
    """Store a value in scratch with its tensor's layout and zeros in the gaps; return the operand number."""
    operand = composer.scratch_bytes(tensor.size_in_bytes, reason)
    _clear(composer, operand, tensor)
    composer.move(value.moves(operand, 0, (*tensor.layout.strides, value.element_size)))
    return operand


def _clear(composer: GraphComposer, operand: int, tensor: TensorDesc) -> None:
    """Fill a tensor that has gaps with zeros, since another tensor may read the gaps."""
    elements = 1
    for size in tensor.sizes:
        elements *= size
    if elements * tensor.data_type.itemsize < tensor.size_in_bytes:
        composer.move([Move((), Access(operand, 0, ()), Fill(b"\0"), tensor.size_in_bytes)])
