"""The operators, one file each, and the registry that maps model files' type names to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.operators import registry
from anydml.operators.base import OperatorDesc
from anydml.operators.problem import Problem
from anydml.operators.registry import DESCS, FUNCTIONS, REGISTRY

if TYPE_CHECKING:
    from anydml.operators.registry import *  # noqa: F403
else:
    globals().update(DESCS)

__all__ = ["FUNCTIONS", "REGISTRY", "OperatorDesc", "Problem", "registry", *DESCS]  # noqa: PLE0604  # its keys are names
