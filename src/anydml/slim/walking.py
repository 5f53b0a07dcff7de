"""Names in nodes, those that graphs inside of them take from outside included."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import NodeProto

from anydml.onnx.walk import bodies, subgraphs


def captured(node: NodeProto) -> Iterator[str]:
    """Names that the graphs inside a node read; some may be their own."""
    for body in bodies(subgraphs(node)):
        for inner in body.node:
            yield from inner.input
        for output in body.output:
            yield output if isinstance(output, str) else output.name
