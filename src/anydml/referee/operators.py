"""The operators of ONNX that the referee draws cases of. Start here to read this package, or to add an operator."""

from __future__ import annotations

from collections.abc import Mapping

from anydml.referee import (
    concat_split,
    copies,
    diagonals,
    index_operators,
    making_values,
    optional_values,
    padding,
    pixel_blocks,
    repeating,
    resizing,
    sequence_operators,
    sequence_parts,
    shaping,
    slicing,
    squeezing,
    writing_over,
)
from anydml.referee.nodes import Node, Result
from anydml.referee.operator_rules import Operator

_MODULES = (
    shaping, squeezing, repeating, concat_split, slicing, padding, index_operators, writing_over, diagonals,
    pixel_blocks,
    making_values, resizing, copies, sequence_operators, sequence_parts, optional_values,
)  # fmt: skip

OPERATORS: Mapping[str, Operator] = {operator.name: operator for module in _MODULES for operator in module.OPERATORS}
"""Operators by type."""


def results_of(node: Node) -> list[Result]:
    """Return the results of a node, none of which is a sequence or an optional value."""
    results = OPERATORS[node.operator].formula(node)
    return [result for result in results if isinstance(result, Result)]
