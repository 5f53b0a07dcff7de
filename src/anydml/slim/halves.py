"""Halves of Gelus as factors of their inputs, by which runtimes find Gelu: x·(½·(1 + erf)) as (½·x)·(1 + erf).

Both round the same product once, because halves are exact, except for those of subnormal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from anydml.proving.movement_terms import filled
from anydml.proving.terms import Term
from anydml.slim.graph import Graph, Op

HALVES_TITLE = "x·(½·(1 + erf)) is written as (½·x)·(1 + erf), by which runtimes find Gelu"

MIN_BYTES = 4
"""Minimum size of an element: halves of small numbers of fewer bits, such as 10⁻⁴ as float16, are not exact."""


def with_halves(graph: Graph, terms: Mapping[str, Term | None]) -> list[Op] | None:
    """Return nodes with other factors halved; None if there are none.

    Args:
        graph: the graph.
        terms: the terms of its values, by name.
    """
    ops = [new_op for op in graph.ops for new_op in _halve_input(op, graph, terms)]
    return None if ops == graph.ops else ops


def _halve_input(op: Op, graph: Graph, terms: Mapping[str, Term | None]) -> list[Op]:
    for name, product in zip(op.inputs, op.inputs[::-1], strict=True) if op.op_type == "Mul" else ():
        inner = graph.maker(product)
        if inner is None or inner.op_type != "Mul" or len(graph.readers[product]) > 1:
            continue
        for half, total in zip(inner.inputs, inner.inputs[::-1], strict=True):
            if _is_half(terms.get(half)) and _adds_erf(total, name, graph):
                new_name = graph.new_name(name, "half")
                halved = Op.make("Mul", [name, half], [new_name], inner.proto.name)
                return [halved, op.copy_with([new_name, total])]
    return [op]


def _is_half(term: Term | None) -> bool:
    if term is None or term.dtype is None or term.dtype.kind != "f" or term.dtype.itemsize < MIN_BYTES:
        return False
    element = filled(term)
    return element is not None and bool(element == 0.5) and term.array is not None and term.array.size == 1


def _adds_erf(total: str, name: str, graph: Graph) -> bool:
    """Whether a value is a sum with Erf of a multiple of a value."""
    added = graph.maker(total)
    makers = [graph.maker(summand) for summand in added.inputs] if added is not None and added.op_type == "Add" else []
    scaled = [graph.maker(maker.inputs[0]) for maker in makers if maker is not None and maker.op_type == "Erf"]
    return any(maker is not None and maker.op_type in ("Div", "Mul") and name in maker.inputs for maker in scaled)
