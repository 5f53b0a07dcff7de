"""Bodies of nodes as separate models: values of the surrounding graph become inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from anydml.onnx.inference import FOLLOWED
from anydml.onnx.walk import subgraphs
from anydml.proving.terms import Term
from anydml.slim.graph import Graph, Op

Named = Mapping[str, Term | None]
"""Terms by name of the values in a body and around it."""

Slim = Callable[[ModelProto], ModelProto]
"""Returns a slimmed model; the model itself if it cannot be improved."""


def with_slimmed_bodies(graph: Graph, inner: Mapping[str, Sequence[Named]], slim: Slim) -> Graph:
    """Return a graph whose nodes have slimmed bodies; the graph itself if no body can be improved.

    Args:
        graph: the graph.
        inner: the terms of the values in each body, by the first output of the node with the bodies.
        slim: slims a body.
    """
    ops = []
    for op in graph.ops:
        inner_terms = inner.get(next(filter(None, op.outputs), ""))
        ops.append(op if inner_terms is None else _slim(op, inner_terms, graph, slim))
    return graph if ops == graph.ops else graph.with_ops(ops)


def _slim(op: Op, inner: Sequence[Named], graph: Graph, slim: Slim) -> Op:
    proto = NodeProto()
    proto.CopyFrom(op.proto)
    is_changed = False
    for body, terms in zip(subgraphs(proto), inner, strict=True):
        model = _model(body, terms, graph.model)
        if not all(value.HasField("type") for value in model.graph.input):
            continue
        slimmed = slim(model)
        if slimmed is model:
            continue
        around = terms.keys() - _values_in_body(body)
        lent = {tensor.name for tensor in model.graph.initializer} & around
        constants = [tensor for tensor in slimmed.graph.initializer if tensor.name not in lent]
        names_made = {tensor.name for tensor in constants} | {
            name for node in slimmed.graph.node for name in node.output
        }
        if names_made & around:
            # A name in a body must not hide a name around it.
            continue
        del body.node[:], body.initializer[:]
        body.node.extend(slimmed.graph.node)
        body.initializer.extend(constants)
        del body.value_info[:]
        is_changed = True
    return Op(proto) if is_changed else op


def _values_in_body(body: GraphProto) -> set[str]:
    """Return the names of the values that a body defines."""
    names = {name for node in body.node for name in node.output}
    return names | {value.name for value in (*body.input, *body.initializer)}


def _model(body: GraphProto, terms: Named, around: ModelProto) -> ModelProto:
    """Return a body as a model; values of the surrounding graph that the body reads become inputs or constants."""
    own_names = _values_in_body(body)
    read = [name for node in body.node for name in Op(node).inputs + Op(node).captured]
    outside = dict.fromkeys(
        name for name in (*read, *(output.name for output in body.output)) if name and name not in own_names
    )
    graph = GraphProto(name=body.name or "body", node=body.node, initializer=body.initializer)
    graph.sparse_initializer.extend(body.sparse_initializer)
    for name in (*(value.name for value in body.input), *outside):
        term = terms.get(name)
        if term is not None and term.is_constant and term.array is not None and term.array.size <= FOLLOWED:
            graph.initializer.append(numpy_helper.from_array(term.array, name))
        else:
            graph.input.append(_value(name, term))
    graph.output.extend(ValueInfoProto(name=value.name) for value in body.output)
    opsets = around.opset_import
    return ModelProto(ir_version=around.ir_version, graph=graph, opset_import=opsets, functions=around.functions)


def _value(name: str, term: Term | None) -> ValueInfoProto:
    """Return the declaration of a value; sizes that are not numbers are left unnamed."""
    if term is None or term.dtype is None:
        return ValueInfoProto(name=name)
    shape = None if term.shape is None else [size if isinstance(size, int) else None for size in term.shape]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(term.dtype), shape)
