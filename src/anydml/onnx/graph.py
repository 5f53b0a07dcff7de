"""ONNX nodes as the rest of this package reads them: operator, version, attributes, and errors that name the node."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
from onnx import AttributeProto, ModelProto, NodeProto, OperatorSetIdProto

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.onnx import custom
from anydml.text import printable

MICROSOFT = "com.microsoft"

VERSIONS: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("", "Concat"): (1, 4, 11, 13),
    ("", "Constant"): (1, 9, 11, 12, 13, 19, 21, 23, 24, 25),
    ("", "Gather"): (1, 11, 13),
    ("", "Identity"): (1, 13, 14, 16, 19, 21, 23, 24, 25),
    ("", "Slice"): (1, 10, 11, 13),
    ("", "Split"): (2, 11, 13, 18),
    (MICROSOFT, "ConcatTraining"): (1,),
    (MICROSOFT, "SplitTraining"): (1,),
    **custom.VERSIONS,
}
"""Operators by domain and type, and the opset versions that changed them."""

Opsets = Mapping[str, int]
"""Opset versions by domain."""


@dataclass(frozen=True)
class Node:
    """A node of an operator in `VERSIONS`.

    Attributes:
        domain: the operator's; the empty one is ONNX's own.
        version: the version of the operator, not of the opset: the Split of opset 15 is version 13.
        inputs, outputs: names; an empty one is left out.
    """

    name: str
    domain: str
    operator: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeProto]

    @property
    def label(self) -> str:
        """What errors call it: ``node "split" (Split)``."""
        return _label(self.name, self.domain, self.operator)

    def error(self, message: str, field: str | None = None, rule: str | None = None) -> ModelError:
        """The error that says `message` about this node."""
        return ModelError(f"{self.label}: {message}", self.operator, field, rule)

    def reworded(self, error: Exception) -> ModelError:
        """What a function of anydml's says, as an error of this node: the node's label says of which operator."""
        name = getattr(error, "operator", None) or self.operator.lower()
        message = str(error).removeprefix(f"{name}: ")
        return self.error(message, getattr(error, "field", None), getattr(error, "rule", None))

    def integer(self, name: str, default: int | None = None) -> int | None:
        """An INT attribute, or `default`.

        Raises:
            ModelError: it has another type.
        """
        found = self.attributes.get(name)
        return default if found is None else int(self._typed(found, AttributeProto.INT).i)

    def integers(self, name: str) -> list[int] | None:
        """An INTS attribute, or None.

        Raises:
            ModelError: it has another type.
        """
        found = self.attributes.get(name)
        return None if found is None else list(self._typed(found, AttributeProto.INTS).ints)

    def axis(self, rank: int, default: int | None = 0) -> int:
        """The attribute `axis`, from 0 to rank − 1.

        Raises:
            ModelError: it is missing and has no default, or outside −rank … rank − 1.
        """
        axis = self.integer("axis", default)
        if axis is None:
            raise self.error("has no attribute axis", "axis", "axis is required")
        if not -rank <= axis < rank:
            rule = f"axis is {-rank} to {rank - 1}" if rank else "a scalar has no axis"
            raise self.error(f"axis is {axis}, but the rank is {rank}", "axis", rule)
        return axis % rank

    def vector(self, name: str, value: Any) -> list[int]:
        """The values of a one-dimensional integer input.

        Raises:
            ModelError: it has another type or rank.
        """
        array = np.asarray(value)
        if array.dtype not in (np.int32, np.int64) or array.ndim != 1:
            what = f"{name} is {array.dtype} of shape {list(array.shape)}"
            raise self.error(what, name, f"{name} is one-dimensional, INT32 or INT64")
        return [operator.index(item) for item in array.tolist()]

    def _typed(self, attribute: AttributeProto, kind: int) -> AttributeProto:
        if attribute.type != kind:
            kinds: Any = AttributeProto.AttributeType
            expected = kinds.Name(kind)
            name = printable(attribute.name)
            raise self.error(f"attribute {name} is no {expected}", attribute.name, f"{name} is {expected}")
        return attribute


def opsets_of(imports: Iterable[OperatorSetIdProto]) -> Opsets:
    """Versions by domain; ``ai.onnx`` is another name of the empty domain (ONNX IR, "Operator Sets")."""
    return {plain_domain(entry.domain): entry.version for entry in imports}


def plain_domain(domain: str) -> str:
    """A domain's one name."""
    return "" if domain == "ai.onnx" else domain


def read_nodes(model: ModelProto) -> list[Node]:
    """The nodes of the main graph, in order; names are made up where there are none or where they repeat.

    Raises:
        ModelError: a node is of an operator, or of a version of one, that anydml does not have.
    """
    opsets = opsets_of(model.opset_import)
    nodes: list[Node] = []
    taken: set[str] = set()
    for i, proto in enumerate(model.graph.node):
        name = proto.name or f"{proto.op_type}_{i}"
        while name in taken:
            name = f"{name}_{i}"
        taken.add(name)
        nodes.append(read_node(proto, opsets, name))
    return nodes


def read_node(proto: NodeProto, opsets: Opsets, name: str) -> Node:
    """One node.

    Raises:
        ModelError: its operator, its version or one of its attributes is none that anydml has.
    """
    domain, kind = plain_domain(proto.domain), proto.op_type
    known = VERSIONS.get((domain, kind))
    if known is None:
        label = _label(name, domain, kind)
        have = ", ".join(sorted(f"{d}:{k}" if d else k for d, k in VERSIONS))
        raise ModelError(f"{label}: anydml has no such operator; it has {have}", kind)
    opset = opsets.get(domain)
    if opset is None:
        domains = f"the model imports no opset of domain {show(domain or 'ai.onnx')}"
        raise ModelError(f"{_label(name, domain, kind)}: {domains}", kind, "opset_import")
    version = _version(domain, kind, opset, known)
    if version is None:
        versions = ", ".join(map(str, known))
        message = f"anydml does not have the version of opset {opset}; it has versions {versions}"
        raise ModelError(f"{_label(name, domain, kind)}: {message}", kind, "opset_import")
    attributes: dict[str, AttributeProto] = {}
    for attribute in proto.attribute:
        attributes[attribute.name] = attribute
        if attribute.ref_attr_name:
            message = f"attribute {show(attribute.name)} refers to a function's attribute outside of a function"
            raise ModelError(f"{_label(name, domain, kind)}: {message}", kind, attribute.name)
    return Node(name, domain, kind, version, tuple(proto.input), tuple(proto.output), attributes)


def _label(name: str, domain: str, kind: str) -> str:
    return f"node {show(name)} ({printable(f'{domain}:{kind}' if domain else kind)})"


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


def last_use(nodes: Sequence[Node], kept: Sequence[str]) -> dict[int, list[str]]:
    """Names that are not needed after each node, by its number, so that their memory can be given back.

    Args:
        nodes: in order.
        kept: names that are needed in the end.
    """
    last: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.inputs:
            last[name] = i
        for name in node.outputs:
            last[name] = i
    for name in (*kept, ""):
        last.pop(name, None)
    drops: dict[int, list[str]] = {}
    for name, i in last.items():
        drops.setdefault(i, []).append(name)
    return drops
