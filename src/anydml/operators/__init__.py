"""The operators, one file each, and the registry by which model files find them."""

from __future__ import annotations

from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.concat_training import ConcatTrainingOperatorDesc
from anydml.operators.gather import GatherOperatorDesc
from anydml.operators.join import JoinOperatorDesc
from anydml.operators.slice import SliceOperatorDesc
from anydml.operators.slice1 import Slice1OperatorDesc
from anydml.operators.split import SplitOperatorDesc
from anydml.operators.split_training import SplitTrainingOperatorDesc

REGISTRY: dict[str, type[OperatorDesc]] = {
    "DML_OPERATOR_SPLIT": SplitOperatorDesc,
    "DML_OPERATOR_JOIN": JoinOperatorDesc,
    "DML_OPERATOR_SLICE": SliceOperatorDesc,
    "DML_OPERATOR_SLICE1": Slice1OperatorDesc,
    "DML_OPERATOR_GATHER": GatherOperatorDesc,
    "ORT_OPERATOR_SPLIT_TRAINING": SplitTrainingOperatorDesc,
    "ORT_OPERATOR_CONCAT_TRAINING": ConcatTrainingOperatorDesc,
}
"""Operator types as model files name them."""

__all__ = [
    "REGISTRY",
    "ConcatTrainingOperatorDesc",
    "GatherOperatorDesc",
    "JoinOperatorDesc",
    "OperatorDesc",
    "Problem",
    "Slice1OperatorDesc",
    "SliceOperatorDesc",
    "SplitOperatorDesc",
    "SplitTrainingOperatorDesc",
]
