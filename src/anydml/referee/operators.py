"""The operators of ONNX that the referee draws cases of. Start here to read this package, or to add an operator."""

from __future__ import annotations

from collections.abc import Mapping

from anydml.referee import (
    making_values,
    padding,
    parts,
    picking,
    repeating,
    resizing,
    shaping,
    writing_over,
)
from anydml.referee.rules import Operator

_MODULES = (shaping, repeating, parts, padding, picking, writing_over, making_values, resizing)

OPERATORS: Mapping[str, Operator] = {each.name: each for module in _MODULES for each in module.OPERATORS}
"""Operators by type."""
