"""ONNX models that move fewer bytes: movement is composed, and rewritten as the cheapest standard nodes."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("onnx") is None:
    raise ImportError('anydml.slim needs the package onnx: pip install "anydml[onnx]"', name="onnx")

from anydml.slim.pipeline import slim
from anydml.slim.regions import Region
from anydml.slim.slimmed_model import SlimmedModel

__all__ = ["Region", "SlimmedModel", "slim"]
