"""Findings of the translation of nodes to descs."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto

from anydml.errors import ModelError
from anydml.onnx.table import NODES
from anydml.onnx.walk import nodes, plain_domain, subgraphs
from anydml.operators import OperatorDesc
from anydml.text import count_noun


@dataclass(frozen=True)
class Finding:
    """The result of translating a node: a desc, an error, or a reason why it was not checked.

    Attributes:
        node: name of the node.
        desc: the equivalent desc, not checked against any feature level.
        error: the reason why DirectML has no equivalent.
        unchecked: the reason why the node was not checked, or not wholly.
        sizes: symbolic sizes that must be given to check it.
        computes: whether the node is out of scope because it computes.
        on_host: whether the node is shape arithmetic: its results only determine sizes, which the host computes.
        off_device_reason: why no part of the node would run on the device, although it moves elements; or empty.
        cause: the error of the reason why it was not checked, if every node must be.
        operator: name of the operator, with its domain.
        is_invalid: whether the error breaks a rule of ONNX, so that no runtime runs the node.
    """

    node: str
    desc: OperatorDesc | None = None
    error: ModelError | None = None
    unchecked: str | None = None
    sizes: tuple[str, ...] = ()
    computes: bool = False
    on_host: bool = False
    off_device_reason: str = ""
    cause: ModelError | None = None
    operator: str = ""
    is_invalid: bool = False


ON_THE_CPU = "ONNX Runtime moves it on the CPU, since DirectML has no operator for it"
NO_ELEMENTS = "it moves no element"
"""Reasons why nodes of known operators have no desc."""

MOVING = frozenset({
    "CenterCropPad", "Compress", "TensorScatter", "ConcatFromSequence", "SequenceAt", "SequenceConstruct",
    "SequenceErase", "SequenceInsert", "SplitToSequence",
})  # fmt: skip
"""Operators without a desc that do more than rename a buffer."""


def host_finding(name: str, reason: str) -> Finding:
    """Return the finding of a node of which nothing would run on the device."""
    return Finding(name, unchecked=reason, off_device_reason=reason)


def movement_in(proto: NodeProto) -> str:
    """Count the movement nodes in the bodies of a node, such as those of If and Loop."""
    entries = (
        NODES.get((plain_domain(inner_node.domain), inner_node.op_type)) for inner_node in nodes(subgraphs(proto))
    )
    count = sum(entry is not None and entry.describe is not None for entry in entries)
    return count_noun(count, "movement node") if count else ""
