"""The registry of operators. All front ends (`anydml`, model files, PyTorch, ONNX) are derived from it.

Every module of this folder is registered. `names.pyi` lists the names of anydml's own operators; a module of these is
imported when one of its names is used. A module that was added to the folder is imported at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from anydml.operators.base import OperatorDesc
from anydml.operators.function import RECORDED, Function

T = TypeVar("T")

SHARED = (
    *("base", "desc_text", "element", "enums", "function", "grids", "index_tuples", "problem", "readers"),
    *("registry", "rule", "scalars", "shared_rules", "split_join", "types", "unsupported"),
)
"""The modules of this folder that have no operators."""

_FOLDER = os.path.dirname(__file__)

with open(os.path.join(_FOLDER, "names.pyi"), encoding="utf-8") as _file:
    _LINES = [line.split(" ", 3) for line in _file if line.startswith("from ")]

MODULES = {item.split()[-1]: module for _, module, _, items in _LINES for item in items.split(", ")}
"""The modules of the operators' public names."""

for _file_name in sorted(os.listdir(_FOLDER)):
    _stem = _file_name.removesuffix(".py")
    _module = f"{__package__}.{_stem}"
    _is_operator = _stem != _file_name and not _stem.startswith("_") and _stem not in SHARED
    if _is_operator and _module not in MODULES.values():
        for _name, _value in vars(import_module(_module)).items():
            if (_name.endswith("OperatorDesc") or _name in RECORDED) and _value.__module__ == _module:
                MODULES[_name] = _module


class Registry(Mapping[str, T]):
    """Entries by name, each of which is read when it is used, from its module.

    Args:
        names: the names.
        read: ``read(module, name)`` returns an entry.
    """

    def __init__(self, names: list[str], read: Callable[[ModuleType, str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._read = read

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        return self._read(import_module(MODULES[name]), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_DESC_NAMES = [name for name in MODULES if name.endswith("OperatorDesc")]

DESCS: Mapping[str, type[OperatorDesc]] = Registry(_DESC_NAMES, getattr)
"""The desc classes, by name."""

FUNCTIONS: Mapping[str, Function] = Registry(
    [name for name in MODULES if name not in _DESC_NAMES], lambda _, name: RECORDED[name]
)
"""The functions, by name."""

REGISTRY: dict[str, type[OperatorDesc]]
"""The desc classes, by the operator's type in model files."""


def __getattr__(name: str) -> Any:
    """Make `REGISTRY`, for which all operators are imported, when it is first used."""
    if name != "REGISTRY":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, {type_name: desc for desc in DESCS.values() for type_name in desc.TYPES})
