"""ONNX: run, judge and rewrite graphs of the operators that anydml has.

`backend` is a backend in the sense of `onnx.backend.base`; `reference_ops` adds SplitTraining and ConcatTraining to
onnx's reference evaluator; `make_portable` rewrites those two so that a stock ONNX Runtime runs the graph; `to_descs`
says what a graph amounts to in DirectML; `load` reads a file that nobody vouches for.

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
