"""Reciprocals of roots as divisions, by which runtimes find RMS normalizations, as in Mul(x, Reciprocal(Sqrt(…)))."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from anydml.proving.terms import Term
from anydml.slim.graph import OUTSIDE_GRAPH, Graph, Op

DIVISIONS_TITLE = "1/√x is written as Div, by which runtimes find normalizations"


def with_divisions(graph: Graph, terms: Mapping[str, Term | None]) -> list[Op] | None:
    """Return nodes with Div for Reciprocal where products read 1/√x; None if there are none.

    Args:
        graph: the graph.
        terms: the terms of its values, by name.
    """
    ops = [_replace_reciprocal(op, graph, terms) for op in graph.ops]
    return None if ops == graph.ops else ops


def _replace_reciprocal(op: Op, graph: Graph, terms: Mapping[str, Term | None]) -> Op:
    root = graph.maker(op.inputs[0]) if op.op_type == "Reciprocal" else None
    if root is None or root.op_type != "Sqrt":
        return op
    readers = graph.readers.get(op.outputs[0], ())
    if not all(node_number != OUTSIDE_GRAPH and graph.ops[node_number].op_type == "Mul" for node_number in readers):
        return op
    term = terms.get(op.inputs[0])
    if term is None or term.dtype is None or term.dtype.kind != "f":
        return op
    one_name = graph.constant("one", np.ones((), term.dtype))
    return Op.make("Div", [one_name, *op.inputs], op.outputs, op.proto.name)
