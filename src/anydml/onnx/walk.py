"""Every list of nodes in a model: the main graph, training graphs, functions, and the graphs in attributes of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

Body = GraphProto | FunctionProto
"""What has nodes."""


def main_graphs(model: ModelProto) -> list[GraphProto]:
    """The graphs whose operators are of the model's own opsets: the main one, and those for training."""
    training = ((info.initialization, info.algorithm) for info in model.training_info)
    return [model.graph, *(graph for pair in training for graph in pair)]


def bodies(tops: Iterable[Body]) -> Iterator[Body]:
    """Graphs and functions, and the graphs inside them, outer ones first."""
    for top in tops:
        yield top
        for node in top.node:
            yield from bodies(subgraphs(node))


def all_bodies(model: ModelProto) -> Iterator[Body]:
    """Everything in a model that has nodes."""
    return bodies([*main_graphs(model), *model.functions])


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes, but not those inside them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that a model holds, in initializers and attributes."""
    for body in all_bodies(model):
        if isinstance(body, GraphProto):
            yield from body.initializer
            for sparse in body.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for node in body.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                for sparse in [*([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
                               *attribute.sparse_tensors]:  # fmt: skip
                    yield from (sparse.values, sparse.indices)
