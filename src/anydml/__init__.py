"""Rearrange checkpoints, arrays and ONNX models in a single pass, at memory bandwidth, and see what moves where.

Descs (`SplitOperatorDesc` …) describe operators: `desc.check` validates one against a feature level, and `Device`
compiles it, binds buffers and dispatches. Functions (`split`, `join` …; all are in `anydml.functions`) run an operator
on arrays in one call. `copy` copies the elements of any view, and `fuse` turns a chain of moves into a single pass.
"""

# isort: off
from anydml import _interrupt  # first: handles Ctrl-C during the imports below

# isort: on
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from anydml import _lazy_packages  # noqa: F401  # registers functions of higher packages
from anydml._version import __version__ as __version__  # public

_FOLDERS = __path__
_MODULES = ("anydml._names", "anydml._lazy_names")
"""The modules that have the public names, but for `fuse`, packages, and the operators' descs and functions."""

if TYPE_CHECKING:
    from anydml._lazy_names import *  # noqa: F403
    from anydml._names import *  # noqa: F403
    from anydml.operators.names import *  # noqa: F403
    from anydml.tracing import fuse as fuse  # public
else:
    if not _interrupt.is_command(sys.argv):
        from anydml._names import *  # noqa: F403

    def __getattr__(name: str) -> Any:
        """Import what few programs use when it is first used: `fuse`, devices, packages; in the command, any name."""
        globals()[name] = attribute = _find(name)
        return attribute

    def _find(name: str) -> Any:
        if name == "fuse":
            return import_module("anydml.tracing.fused").fuse
        if name == "__all__":
            return __dir__()
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if PathFinder.find_spec(f"{__name__}.{name}", _FOLDERS):
            return import_module(f"{__name__}.{name}")
        from anydml.operators.registry import DESCS, FUNCTIONS

        if name in FUNCTIONS:
            return getattr(import_module("anydml.functions"), name)
        if name in DESCS:
            return DESCS[name]
        for module in map(import_module, _MODULES):
            if name in module.__all__:
                return getattr(module, name)
        from pkgutil import iter_modules

        from anydml.name_hints import missing_attribute_message

        candidates = [*__dir__(), *(module.name for module in iter_modules(_FOLDERS))]
        raise AttributeError(missing_attribute_message(__name__, name, candidates))

    def __dir__() -> list[str]:
        from anydml.operators.registry import DESCS, FUNCTIONS

        return sorted(
            {"__version__", "fuse", *DESCS, *FUNCTIONS}.union(*[import_module(name).__all__ for name in _MODULES])
        )
