"""ONNX: run, check and rewrite graphs of the operators that anydml implements.

`backend` implements the interface of `onnx.backend.base`. `reference_ops` adds SplitTraining and ConcatTraining to
onnx's reference evaluator, and `make_portable` rewrites these two so that any ONNX runtime runs the graph. `to_descs`
translates a graph to DirectML descs. `load` reads untrusted files.

Needs the package onnx: ``pip install "anydml[onnx]"``.
"""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import TYPE_CHECKING, Any

if importlib.util.find_spec("onnx") is None:
    raise ImportError('anydml.onnx needs the package onnx: pip install "anydml[onnx]"', name="onnx")

if TYPE_CHECKING:
    from anydml.onnx import backend as backend  # public
    from anydml.onnx.model_file import load as load
    from anydml.onnx.node_descs import to_descs as to_descs
    from anydml.onnx.portable import make_portable as make_portable
    from anydml.onnx.reference import reference_ops as reference_ops

_MODULES = {"load": "model_file", "make_portable": "portable", "reference_ops": "reference", "to_descs": "node_descs"}

__all__ = ["backend", "load", "make_portable", "reference_ops", "to_descs"]


def __getattr__(name: str) -> Any:
    """Import a public name's module when it is first used: only `reference_ops` needs onnx's reference evaluator."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES.get(name, name)}")
    globals()[name] = value = getattr(module, name) if name in _MODULES else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
