"""The operators, one file each, and the registry that maps model files' type names to them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anydml.operators import registry
from anydml.operators.base import OperatorDesc
from anydml.operators.problem import Problem
from anydml.operators.registry import DESCS, FUNCTIONS

if TYPE_CHECKING:
    from anydml.operators.names import *  # noqa: F403
    from anydml.operators.registry import REGISTRY
else:

    def __getattr__(name: str) -> Any:
        """Import a desc, its module, or all of them for `REGISTRY`, on first use."""
        if name == "REGISTRY":
            return registry.REGISTRY
        if f"{__name__}.{name}" in registry.MODULES.values():
            return import_module(f"{__name__}.{name}")
        if name not in DESCS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return DESCS[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = ["FUNCTIONS", "REGISTRY", "OperatorDesc", "Problem", "registry", *DESCS]  # noqa: PLE0604  # its keys are names
