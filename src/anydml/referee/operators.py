"""The operators of ONNX that the referee draws cases of. Start here to read this package, or to add an operator."""

from __future__ import annotations

from collections.abc import Mapping

from anydml.referee import (
    blocks,
    concat_split,
    diagonals,
    making_values,
    padding,
    picking,
    repeating,
    resizing,
    shaping,
    slicing,
    squeezing,
    writing_over,
)
from anydml.referee.rules import Operator

_MODULES = (
    shaping, squeezing, repeating, concat_split, slicing, padding, picking, writing_over, diagonals, blocks,
    making_values, resizing,
)  # fmt: skip

OPERATORS: Mapping[str, Operator] = {each.name: each for module in _MODULES for each in module.OPERATORS}
"""Operators by type."""
