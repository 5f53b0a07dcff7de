"""A graph as one program: node after node composed, and stored in scratch only where that is not possible."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from anydml.graph.composer import GraphComposer
from anydml.graph.nodes import Node
from anydml.graph.parts import (
    NAME,
    ConstantDataGraphNodeDesc,
    Graph,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    node_label,
)
from anydml.graph.reinterpret import is_same, reinterpreted
from anydml.graph.rules import order
from anydml.moves import Access, Fill, Move, Program
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.tensor import Layout, TensorDesc


@dataclass(slots=True)
class _Held:
    """What an output of a node is.

    Attributes:
        value: with one axis more than the tensor.
        tensor: the output's; None for bytes that lie somewhere.
        operand: where all of its bytes lie, if they do.
    """

    value: Value | None
    tensor: TensorDesc | None
    operand: int | None = None

    def seen(self, composer: GraphComposer, tensor: TensorDesc, label: str) -> Value:
        """The value as an input of a node that has this tensor."""
        if self.value is not None and self.tensor is not None and is_same(self.tensor, tensor):
            return self.value
        if self.operand is None and self.value is not None and self.tensor is not None:
            try:
                return reinterpreted(self.value, self.tensor, tensor)
            except NotComposableError as error:
                self.operand = _as_bytes(composer, self.value, self.tensor, f"{label}: {error}")
        if self.operand is None:
            raise AssertionError("what has no value has bytes")
        return _at(self.operand, tensor, tensor.layout.strides)


def lowered(desc: Graph, layouts: tuple[Layout, ...]) -> Program:
    """The program of a graph that breaks no rule.

    Args:
        desc: the graph.
        layouts: of its inputs and outputs.
    """
    composer = GraphComposer(NAME)
    graph_inputs = [
        _graph_input(composer, name, tensor, layout)
        for (name, tensor), layout in zip(desc.inputs, layouts, strict=False)
    ]
    places = [composer.output_bytes(name) for name, _ in desc.outputs]
    strides = [layout.strides for layout in layouts[desc.input_count :]]
    feeds = {(edge.to_node_index, edge.to_node_input_index): edge for edge in desc.intermediate_edges}
    given = {(edge.to_node_index, edge.to_node_input_index): edge.graph_input_index for edge in desc.input_edges}
    leave = defaultdict[tuple[int, int], list[int]](list)
    for edge in desc.output_edges:
        leave[edge.from_node_index, edge.from_node_output_index].append(edge.graph_output_index)
    read = {_from(edge) for edge in desc.intermediate_edges}
    held: dict[tuple[int, int], _Held] = {}
    for number in order(desc)[0]:
        node, label = desc.nodes[number], node_label(desc, number)
        if isinstance(node, ConstantDataGraphNodeDesc):
            known = composer.constant_bytes(label, np.frombuffer(node.data, np.uint8))
            held[number, 0] = _Held(None, None, known)
            continue
        values = []
        for k, (_, tensor) in enumerate(node.inputs):
            feed = feeds.get((number, k))
            source = graph_inputs[given[number, k]] if feed is None else held[_from(feed)]
            values.append(source.seen(composer, tensor, label))
        _run(composer, Node(composer, label, node.operator, values), (number, node), read, held, leave, places, strides)
    return composer.program()


def _run(
    composer: GraphComposer,
    node: Node,
    which: tuple[int, OperatorGraphNodeDesc],
    read: set[tuple[int, int]],
    held: dict[tuple[int, int], _Held],
    leave: dict[tuple[int, int], list[int]],
    places: list[int],
    strides: list[tuple[int, ...]],
) -> None:
    """What a node gives to other nodes, and to the graph."""
    number, own = which
    for k, (_, tensor) in enumerate(own.outputs):
        outputs = leave[number, k]
        try:
            value = node.value(k)
        except NotComposableError as error:
            if (number, k) not in read and len(outputs) == 1:
                node.store(k, places[outputs[0]], strides[outputs[0]])
                continue
            operand = composer.scratch_bytes(tensor.size_in_bytes, str(error))
            _clear(composer, operand, tensor)
            held[number, k] = _Held(node.store(k, operand, tensor.layout.strides), tensor, operand)
        else:
            held[number, k] = _Held(value, tensor)
        for output in outputs:
            found = held[number, k].value
            if found is None:
                raise AssertionError("operators give values")
            composer.move(found.moves(places[output], 0, (*strides[output], found.element_size)))


def _graph_input(composer: GraphComposer, name: str, tensor: TensorDesc, layout: Layout) -> _Held:
    size = tensor.data_type.itemsize
    value = composer.input(name, (*tensor.sizes, 1), (*layout.strides, size), size)
    source = value.pieces[0].source
    if layout == tensor.layout and isinstance(source, Access):
        # A buffer as the tensor says: its bytes are there for whoever sees another tensor in them.
        return _Held(value, tensor, source.operand)
    return _Held(value, tensor)


def _from(edge: IntermediateGraphEdgeDesc) -> tuple[int, int]:
    return edge.from_node_index, edge.from_node_output_index


def _at(operand: int, tensor: TensorDesc, strides: tuple[int, ...]) -> Value:
    size = tensor.data_type.itemsize
    return Value.stored(operand, (*tensor.sizes, 1), (*strides, size), size)


def _as_bytes(composer: GraphComposer, value: Value, tensor: TensorDesc, reason: str) -> int:
    """A value in scratch, as its tensor lies, with zeros in the gaps."""
    operand = composer.scratch_bytes(tensor.size_in_bytes, reason)
    _clear(composer, operand, tensor)
    composer.move(value.moves(operand, 0, (*tensor.layout.strides, value.element_size)))
    return operand


def _clear(composer: GraphComposer, operand: int, tensor: TensorDesc) -> None:
    """Zeros wherever a tensor has gaps, which others may read."""
    elements = 1
    for size in tensor.sizes:
        elements *= size
    if elements * tensor.data_type.itemsize < tensor.size_in_bytes:
        composer.move([Move((), Access(operand, 0, ()), Fill(b"\0"), tensor.size_in_bytes)])
