"""Iterate over the graphs of a model: main graph, training graphs, functions and subgraphs of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

Body = GraphProto | FunctionProto
"""A container of nodes."""

Name = tuple[str, str, str]
"""A function's domain, name and overload."""


def plain_domain(domain: str) -> str:
    """Return the canonical name of a domain; ``ai.onnx`` is an alias of the empty one (ONNX IR, "Operator Sets")."""
    return "" if domain == "ai.onnx" else domain


def main_graphs(model: ModelProto) -> list[GraphProto]:
    """Return the graphs that use the model's opset imports: the main graph, and those for training."""
    training = ((info.initialization, info.algorithm) for info in model.training_info)
    return [model.graph, *(graph for pair in training for graph in pair)]


def bodies(tops: Iterable[Body]) -> Iterator[Body]:
    """Yield graphs and functions and their subgraphs, outer ones first."""
    for top in tops:
        yield top
        for node in top.node:
            yield from bodies(subgraphs(node))


def nodes(tops: Iterable[Body]) -> Iterator[NodeProto]:
    """Yield the nodes of graphs and functions, and of their subgraphs."""
    return (node for body in bodies(tops) for node in body.node)


def function_name(proto: NodeProto | FunctionProto) -> Name:
    """Return the name of the function that a node calls, if there is one, or of a function."""
    name = proto.op_type if isinstance(proto, NodeProto) else proto.name
    return plain_domain(proto.domain), name, proto.overload


def all_bodies(model: ModelProto) -> Iterator[Body]:
    """Yield all graphs and functions of a model."""
    return bodies([*main_graphs(model), *model.functions])


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs in a node's attributes, not recursively."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield all tensors of a model, in initializers and attributes."""
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


def names(model: ModelProto) -> Iterator[str]:
    """Yield all names in a model: of values, nodes, tensors, attributes, sizes, operators and domains."""
    for entry in model.opset_import:
        yield entry.domain
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.attribute)
        yield from (entry.domain for entry in function.opset_import)
    for body in all_bodies(model):
        if isinstance(body, GraphProto):
            for value in (*body.input, *body.output, *body.value_info):
                yield value.name
                yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        else:
            yield from (*body.input, *body.output)
        for node in body.node:
            yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
            for attribute in node.attribute:
                yield from (attribute.name, attribute.ref_attr_name)
    for tensor in tensors(model):
        yield tensor.name
        for entry in tensor.external_data:
            yield from (entry.key, entry.value)
