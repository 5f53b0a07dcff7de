"""The operators of ONNX that the referee draws cases of. Start here to read this package, or to add an operator."""

from __future__ import annotations

from collections.abc import Mapping

from anydml.referee import (
    blocks,
    concat_split,
    copies,
    diagonals,
    making_values,
    optional_values,
    padding,
    picking,
    repeating,
    resizing,
    sequence_parts,
    sequences,
    shaping,
    slicing,
    squeezing,
    writing_over,
)
from anydml.referee.nodes import Node, Result
from anydml.referee.rules import Operator

_MODULES = (
    shaping, squeezing, repeating, concat_split, slicing, padding, picking, writing_over, diagonals, blocks,
    making_values, resizing, copies, sequences, sequence_parts, optional_values,
)  # fmt: skip

OPERATORS: Mapping[str, Operator] = {operator.name: operator for module in _MODULES for operator in module.OPERATORS}
"""Operators by type."""


def results_of(node: Node) -> list[Result]:
    """The results of a node, none of which is a sequence or an optional value."""
    results = OPERATORS[node.operator].formula(node)
    return [result for result in results if isinstance(result, Result)]
