"""Names in nodes, those that graphs inside of them take from outside included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from onnx import ModelProto, NodeProto

from anydml.onnx.graph import plain_domain
from anydml.onnx.walk import bodies, subgraphs


def captured(node: NodeProto) -> Iterator[str]:
    """Names that the graphs inside a node read; some may be their own."""
    for body in bodies(subgraphs(node)):
        for inner in body.node:
            yield from inner.input
        for output in body.output:
            yield output if isinstance(output, str) else output.name


def alive(nodes: Sequence[NodeProto], outputs: Set[str]) -> list[NodeProto]:
    """The nodes that something needs; those of domains that are not ONNX's stay."""
    needed = {*outputs}
    found = []
    for node in reversed(nodes):
        if plain_domain(node.domain) or not node.output or not needed.isdisjoint(node.output):
            found.append(node)
            needed.update(node.input)
            needed.update(captured(node))
    return found[::-1]


def with_nodes(model: ModelProto, nodes: Sequence[NodeProto]) -> ModelProto:
    """The model with other nodes, those of them that something needs."""
    result = ModelProto()
    result.CopyFrom(model)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del result.graph.node[:]
    result.graph.node.extend(alive(kept, {output.name for output in model.graph.output}))
    there = {name for node in result.graph.node for name in node.output}
    for k in reversed(range(len(result.graph.value_info))):
        if result.graph.value_info[k].name not in there:
            del result.graph.value_info[k]
    return result
