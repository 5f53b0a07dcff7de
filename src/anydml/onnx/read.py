"""Nodes read from a model: operator, version and attributes, as far as the table has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import onnx
import onnx.defs
from onnx import AttributeProto, ModelProto, NodeProto

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.onnx.graph import Node, Opsets, label, opsets_of, plain_domain
from anydml.onnx.table import NODES


def read_nodes(model: ModelProto) -> list[Node]:
    """The nodes of the main graph, in order; names are made up where there are none or where they repeat.

    Raises:
        ModelError: a node is of an operator, or of a version of one, that anydml does not have.
    """
    opsets = opsets_of(model.opset_import)
    return [read_node(proto, opsets, name) for name, proto in named(model)]


def named(model: ModelProto) -> Iterator[tuple[str, NodeProto]]:
    """The nodes of the main graph, in order, with names: made up where there are none or where they repeat."""
    taken: set[str] = set()
    for i, proto in enumerate(model.graph.node):
        name = proto.name or f"{proto.op_type}_{i}"
        while name in taken:
            name = f"{name}_{i}"
        taken.add(name)
        yield name, proto


def read_node(proto: NodeProto, opsets: Opsets, name: str) -> Node:
    """One node.

    Raises:
        ModelError: its operator, its version or one of its attributes is none that anydml has.
    """
    domain, kind = plain_domain(proto.domain), proto.op_type
    entry = NODES.get((domain, kind))
    if entry is None:
        why = "anydml has no such operator: it has those that move elements"
        if not domain and kind in ("If", "Loop"):
            why = "anydml runs those whose conditions and counts are constants: what others do depends on elements"
        raise ModelError(f"{label(name, domain, kind)}: {why}", kind)
    known = entry.versions
    opset = opsets.get(domain)
    if opset is None:
        domains = f"the model imports no opset of domain {show(domain or 'ai.onnx')}"
        raise ModelError(f"{label(name, domain, kind)}: {domains}", kind, "opset_import")
    version = _version(domain, kind, opset, known)
    if version is None:
        versions = ", ".join(map(str, known))
        message = f"anydml does not have the version of opset {opset}; it has versions {versions}"
        raise ModelError(f"{label(name, domain, kind)}: {message}", kind, "opset_import")
    attributes: dict[str, AttributeProto] = {}
    for attribute in proto.attribute:
        attributes[attribute.name] = attribute
        if attribute.ref_attr_name:
            message = f"attribute {show(attribute.name)} refers to a function's attribute outside of a function"
            raise ModelError(f"{label(name, domain, kind)}: {message}", kind, attribute.name)
    return Node(name, domain, kind, version, tuple(proto.input), tuple(proto.output), attributes, entry)


@lru_cache(1024)
def _version(domain: str, kind: str, opset: int, known: tuple[int, ...]) -> int | None:
    """The newest known version at or below `opset`, unless onnx knows of one in between."""
    ours = max((version for version in known if version <= opset), default=None)
    if ours is None or domain:
        return ours
    try:
        newest: int = onnx.defs.get_schema(kind, opset, "").since_version
    except onnx.defs.SchemaError:
        return ours
    return ours if newest <= ours else None
