"""Read nodes from a model, and look up their operators and versions in the table."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, ModelProto, NodeProto

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.onnx.graph import Node, Opsets, label, opsets_of
from anydml.onnx.signature import Signature, onnx_signature
from anydml.onnx.table import NODES
from anydml.onnx.walk import plain_domain


def read_nodes(model: ModelProto) -> list[Node]:
    """Read the nodes of the main graph, in order, with unique names.

    Raises:
        ModelError: anydml does not support an operator, or its version.
    """
    opsets = opsets_of(model.opset_import)
    return [read_node(proto, opsets, name) for name, proto in iter_named_nodes(model)]


UNSUPPORTED_NODE = "not supported: anydml has the operators that only move elements"
_DATA_DEPENDENT_CONTROL = (
    "anydml runs those whose conditions and counts are constants: what others do depends on elements"
)
REASONS = {
    "If": _DATA_DEPENDENT_CONTROL,
    "Loop": _DATA_DEPENDENT_CONTROL,
    "Col2Im": "it adds elements where blocks overlap, and anydml moves data and computes nothing",
    "GridSample": "it picks or mixes pixels at places that are computed of a grid's elements; anydml computes nothing",
    "Scan": "it repeats a graph for each row of its inputs; anydml runs a Loop instead, if its count is constant",
    "SequenceMap": "it repeats a graph for each tensor of a sequence; anydml runs nodes for each tensor instead",
    "MaxUnpool": (
        "anydml has none: the text does not say in which tensor its indices count where output_shape is given; "
        "ScatterElements of the flattened tensor into ConstantOfShape's zeros does the same"
    ),
}
"""Reasons why operators of ONNX's own domain are refused, where the type alone does not tell."""


def iter_named_nodes(model: ModelProto) -> Iterator[tuple[str, NodeProto]]:
    """Yield unique names and nodes of the main graph, in order; missing and repeated names are replaced."""
    used_names: set[str] = set()
    for i, proto in enumerate(model.graph.node):
        name = proto.name or f"{proto.op_type}_{i}"
        while name in used_names:
            name = f"{name}_{i}"
        used_names.add(name)
        yield name, proto


def read_node(proto: NodeProto, opsets: Opsets, name: str) -> Node:
    """Read a node.

    Raises:
        ModelError: anydml does not support its operator, its version or an attribute.
    """
    domain, op_type = plain_domain(proto.domain), proto.op_type
    entry = NODES.get((domain, op_type))
    if entry is None:
        reason = REASONS.get(op_type, UNSUPPORTED_NODE) if not domain else UNSUPPORTED_NODE
        raise ModelError(f"{label(name, domain, op_type)}: {reason}", op_type)
    opset = opsets.get(domain)
    if opset is None:
        domains = f"the model imports no opset of domain {show(domain or 'ai.onnx')}"
        raise ModelError(f"{label(name, domain, op_type)}: {domains}", op_type, "opset_import")
    version = max((since for since in entry.versions if since <= opset), default=None)
    declared = None if domain else onnx_signature(op_type, opset)
    # A version between the known one and the opset's is a version that anydml does not have.
    if declared is not None and version is not None and declared[0] > version:
        version = None
    if version is None:
        versions = ", ".join(map(str, entry.versions))
        message = f"anydml does not have the version of opset {opset}; it has versions {versions}"
        raise ModelError(f"{label(name, domain, op_type)}: {message}", op_type, "opset_import")
    attributes: dict[str, AttributeProto] = {}
    for attribute in proto.attribute:
        attributes[attribute.name] = attribute
        if attribute.ref_attr_name:
            message = f"attribute {show(attribute.name)} refers to a function's attribute outside of a function"
            raise ModelError(f"{label(name, domain, op_type)}: {message}", op_type, attribute.name)
    signature = entry.signature or (declared[1] if declared else Signature((), {}))
    return Node(name, domain, op_type, version, tuple(proto.input), tuple(proto.output), attributes, entry, signature)
