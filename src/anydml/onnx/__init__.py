"""ONNX: run, check and rewrite graphs of the operators that anydml implements.

`backend` implements the interface of `onnx.backend.base`. `reference_ops` adds SplitTraining and ConcatTraining to
onnx's reference evaluator, and `make_portable` rewrites these two so that any ONNX runtime runs the graph. `to_descs`
translates a graph to DirectML descs. `load` reads untrusted files.

Needs the package onnx: ``pip install "anydml[onnx]"``.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("onnx") is None:
    raise ImportError('anydml.onnx needs the package onnx: pip install "anydml[onnx]"', name="onnx")

from anydml.onnx import backend
from anydml.onnx.descs import to_descs
from anydml.onnx.model_file import load
from anydml.onnx.portable import make_portable
from anydml.onnx.reference import reference_ops

__all__ = ["backend", "load", "make_portable", "reference_ops", "to_descs"]
