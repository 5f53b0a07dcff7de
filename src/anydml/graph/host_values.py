"""Host inputs of a graph's nodes, such as SplitTraining's sizes: their values must be known at compile time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anydml.graph.structs import (
    NAME,
    ConstantDataGraphNodeDesc,
    Graph,
    IntermediateGraphEdgeDesc,
    NodeTensors,
    OperatorGraphNodeDesc,
    node_label,
)
from anydml.operators.problem import Problem
from anydml.tensor import TensorDesc

Array = np.ndarray[Any, Any]


def host_value_problems(desc: Graph, tensors: Sequence[NodeTensors]) -> Iterator[Problem]:
    """Yield host inputs whose values are unknown, or do not agree with their node.

    Args:
        desc: a graph with valid edges.
        tensors: the nodes' tensors.
    """
    feeds = {(edge.to_node_index, edge.to_node_input_index): edge for edge in desc.intermediate_edges}
    for node_number, node in enumerate(desc.nodes):
        if not isinstance(node, OperatorGraphNodeDesc) or not node.operator.HOST:
            continue
        field, label = f"Nodes[{node_number}]", node_label(desc, node_number)
        arrays: dict[int, Array] = {}
        unknown = False
        for k, (name, tensor) in enumerate(tensors[node_number].inputs):
            if name not in node.operator.HOST:
                continue
            buffer = _known_bytes(desc, tensors, feeds.get((node_number, k)))
            if buffer is None:
                message = f"{label}: {name} of {node.operator.OPERATOR} is read on the host, before the graph runs:"
                message += " feed it from a constant node or from ConcatTraining, or leave it out"
                rule = f"{name} must come from a constant node or from ConcatTraining's PerInputLengthTensor"
                yield Problem(NAME, f"{field}.{name}", message, rule)
                unknown = True
            else:
                arrays[k] = _view(tensor, buffer)
        if not unknown and (problem := node.operator.host_problem(_getter(arrays))):
            message = f"{label}: {node.operator.OPERATOR}: {problem}"
            yield Problem(NAME, field, message, "host data must agree with the desc")


def _getter(arrays: dict[int, Array]) -> Callable[[int], Array]:
    return lambda node_number: arrays[node_number]


def _known_bytes(desc: Graph, tensors: Sequence[NodeTensors], edge: IntermediateGraphEdgeDesc | None) -> Array | None:
    """Return the bytes that an edge carries, or None if they are unknown before the graph runs."""
    if edge is None:
        return None
    node = desc.nodes[edge.from_node_index]
    if isinstance(node, ConstantDataGraphNodeDesc):
        return np.frombuffer(node.data, np.uint8)
    _, tensor = tensors[edge.from_node_index].outputs[edge.from_node_output_index]
    value = node.operator.constant_output(edge.from_node_output_index)
    if value is None:
        return None
    buffer = np.zeros(tensor.size_in_bytes, np.uint8)
    _view(tensor, buffer)[...] = value
    return buffer


def _view(tensor: TensorDesc, buffer: Array) -> Array:
    return np.ndarray(tensor.sizes, tensor.data_type.dtype, buffer, 0, tensor.layout.strides)
