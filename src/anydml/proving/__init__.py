"""Proofs that two ONNX models compute the same, whatever moves in between."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("onnx") is None:
    raise ImportError('anydml.proving needs the package onnx: pip install "anydml[onnx]"', name="onnx")

from anydml.proving.proof import Proof, prove

__all__ = ["Proof", "prove"]
