"""The referee: cases whose results a document decides, and verdicts on engines that run them.

>>> from anydml import referee
>>> case = next(referee.make_cases(["Gather"], 1, seed=1))
>>> case.document
"ONNX's Changelog.md, Gather-13"

Needs the package onnx: ``pip install "anydml[onnx]"``. The engines that are judged are packages of their own.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("onnx") is None:
    raise ImportError('anydml.referee needs the package onnx: pip install "anydml[onnx]"', name="onnx")

from anydml.referee.case_folders import write_cases
from anydml.referee.cases import Case, make_cases
from anydml.referee.causes import causes_of
from anydml.referee.find_cases import find_cases
from anydml.referee.judging import EngineReport, judge
from anydml.referee.verdicts import Verdict

__all__ = ["Case", "EngineReport", "Verdict", "causes_of", "find_cases", "judge", "make_cases", "write_cases"]
