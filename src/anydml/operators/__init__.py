"""The operators, one file each, and the registry by which model files find them."""

from __future__ import annotations

from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.concat_training import ConcatTrainingOperatorDesc
from anydml.operators.depth_space import (
    DepthToSpace1OperatorDesc,
    DepthToSpaceOperatorDesc,
    SpaceToDepth1OperatorDesc,
    SpaceToDepthOperatorDesc,
)
from anydml.operators.diagonal_matrix import DiagonalMatrix1OperatorDesc, DiagonalMatrixOperatorDesc
from anydml.operators.element_wise_identity import ElementWiseIdentityOperatorDesc
from anydml.operators.fill_value import FillValueConstantOperatorDesc, FillValueSequenceOperatorDesc
from anydml.operators.gather import GatherOperatorDesc
from anydml.operators.gather_elements import GatherElementsOperatorDesc
from anydml.operators.gather_nd import GatherNd1OperatorDesc, GatherNdOperatorDesc
from anydml.operators.join import JoinOperatorDesc
from anydml.operators.one_hot import OneHotOperatorDesc
from anydml.operators.padding import Padding1OperatorDesc, PaddingOperatorDesc
from anydml.operators.reverse_subsequences import ReverseSubsequencesOperatorDesc
from anydml.operators.scatter import ScatterOperatorDesc
from anydml.operators.scatter_nd import ScatterNdOperatorDesc
from anydml.operators.slice import SliceOperatorDesc
from anydml.operators.slice1 import Slice1OperatorDesc
from anydml.operators.slice_grad import SliceGradOperatorDesc
from anydml.operators.split import SplitOperatorDesc
from anydml.operators.split_training import SplitTrainingOperatorDesc
from anydml.operators.tile import TileOperatorDesc
from anydml.operators.unfold import UnfoldOperatorDesc
from anydml.operators.upsample_2d import Upsample2dOperatorDesc

REGISTRY: dict[str, type[OperatorDesc]] = {
    "DML_OPERATOR_SPLIT": SplitOperatorDesc,
    "DML_OPERATOR_JOIN": JoinOperatorDesc,
    "DML_OPERATOR_SLICE": SliceOperatorDesc,
    "DML_OPERATOR_SLICE1": Slice1OperatorDesc,
    "DML_OPERATOR_GATHER": GatherOperatorDesc,
    "DML_OPERATOR_TILE": TileOperatorDesc,
    "DML_OPERATOR_PADDING": PaddingOperatorDesc,
    "DML_OPERATOR_PADDING1": Padding1OperatorDesc,
    "DML_OPERATOR_GATHER_ELEMENTS": GatherElementsOperatorDesc,
    "DML_OPERATOR_GATHER_ND": GatherNdOperatorDesc,
    "DML_OPERATOR_GATHER_ND1": GatherNd1OperatorDesc,
    "DML_OPERATOR_SCATTER": ScatterOperatorDesc,
    "DML_OPERATOR_SCATTER_ELEMENTS": ScatterOperatorDesc,
    "DML_OPERATOR_SCATTER_ND": ScatterNdOperatorDesc,
    "DML_OPERATOR_SLICE_GRAD": SliceGradOperatorDesc,
    "DML_OPERATOR_SPACE_TO_DEPTH": SpaceToDepthOperatorDesc,
    "DML_OPERATOR_SPACE_TO_DEPTH1": SpaceToDepth1OperatorDesc,
    "DML_OPERATOR_DEPTH_TO_SPACE": DepthToSpaceOperatorDesc,
    "DML_OPERATOR_DEPTH_TO_SPACE1": DepthToSpace1OperatorDesc,
    "DML_OPERATOR_DIAGONAL_MATRIX": DiagonalMatrixOperatorDesc,
    "DML_OPERATOR_DIAGONAL_MATRIX1": DiagonalMatrix1OperatorDesc,
    "DML_OPERATOR_FILL_VALUE_CONSTANT": FillValueConstantOperatorDesc,
    "DML_OPERATOR_FILL_VALUE_SEQUENCE": FillValueSequenceOperatorDesc,
    "DML_OPERATOR_ELEMENT_WISE_IDENTITY": ElementWiseIdentityOperatorDesc,
    "DML_OPERATOR_REVERSE_SUBSEQUENCES": ReverseSubsequencesOperatorDesc,
    "DML_OPERATOR_ONE_HOT": OneHotOperatorDesc,
    "DML_OPERATOR_UPSAMPLE_2D": Upsample2dOperatorDesc,
    "DML_OPERATOR_UNFOLD": UnfoldOperatorDesc,
    "ORT_OPERATOR_SPLIT_TRAINING": SplitTrainingOperatorDesc,
    "ORT_OPERATOR_CONCAT_TRAINING": ConcatTrainingOperatorDesc,
}
"""Operator types as model files name them."""

__all__ = [
    "REGISTRY",
    "ConcatTrainingOperatorDesc",
    "DepthToSpace1OperatorDesc",
    "DepthToSpaceOperatorDesc",
    "DiagonalMatrix1OperatorDesc",
    "DiagonalMatrixOperatorDesc",
    "ElementWiseIdentityOperatorDesc",
    "FillValueConstantOperatorDesc",
    "FillValueSequenceOperatorDesc",
    "GatherElementsOperatorDesc",
    "GatherNd1OperatorDesc",
    "GatherNdOperatorDesc",
    "GatherOperatorDesc",
    "JoinOperatorDesc",
    "OneHotOperatorDesc",
    "OperatorDesc",
    "Padding1OperatorDesc",
    "PaddingOperatorDesc",
    "Problem",
    "ReverseSubsequencesOperatorDesc",
    "ScatterNdOperatorDesc",
    "ScatterOperatorDesc",
    "Slice1OperatorDesc",
    "SliceGradOperatorDesc",
    "SliceOperatorDesc",
    "SpaceToDepth1OperatorDesc",
    "SpaceToDepthOperatorDesc",
    "SplitOperatorDesc",
    "SplitTrainingOperatorDesc",
    "TileOperatorDesc",
    "UnfoldOperatorDesc",
    "Upsample2dOperatorDesc",
]
