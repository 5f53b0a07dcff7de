"""anydml: DirectML's data-movement operators, described, checked, explained and run anywhere Python runs.

Descs (`SplitOperatorDesc` …) say what an operator is; `desc.check` holds it against a feature level; `Device` compiles
it, binds buffers and dispatches. `split`, `join`, `slice`, `slice1`, `gather`, `split_training` and `concat_training`
do the same to arrays in one call; `copy` moves the elements of any view; `fuse` makes a chain of
moves one pass.
"""

from anydml._version import __version__
from anydml.device import BoundOperator, CompiledOperator, Device
from anydml.engines.cpu.pool import get_num_threads, set_num_threads
from anydml.errors import BindingError, DescError, FuseError, ModelError
from anydml.feature_level import FeatureLevel
from anydml.functions import concat_training, gather, join, slice, slice1, split, split_training
from anydml.functions.copying import copy
from anydml.graph import fuse
from anydml.memory.warm import empty_cache, set_cache_limit
from anydml.operators import (
    ConcatTrainingOperatorDesc,
    DepthToSpace1OperatorDesc,
    DepthToSpaceOperatorDesc,
    DiagonalMatrix1OperatorDesc,
    DiagonalMatrixOperatorDesc,
    ElementWiseIdentityOperatorDesc,
    FillValueConstantOperatorDesc,
    FillValueSequenceOperatorDesc,
    GatherElementsOperatorDesc,
    GatherNd1OperatorDesc,
    GatherNdOperatorDesc,
    GatherOperatorDesc,
    JoinOperatorDesc,
    OneHotOperatorDesc,
    OperatorDesc,
    Padding1OperatorDesc,
    PaddingOperatorDesc,
    Problem,
    ReverseSubsequencesOperatorDesc,
    ScatterNdOperatorDesc,
    ScatterOperatorDesc,
    Slice1OperatorDesc,
    SliceGradOperatorDesc,
    SliceOperatorDesc,
    SpaceToDepth1OperatorDesc,
    SpaceToDepthOperatorDesc,
    SplitOperatorDesc,
    SplitTrainingOperatorDesc,
    TileOperatorDesc,
    UnfoldOperatorDesc,
    Upsample2dOperatorDesc,
)
from anydml.operators.enums import DepthSpaceOrder, InterpolationMode, PaddingMode, ScaleBias, Size2D
from anydml.tensor import DataType, TensorDesc, TensorFlags

__all__ = [
    "BindingError",
    "BoundOperator",
    "CompiledOperator",
    "ConcatTrainingOperatorDesc",
    "DataType",
    "DepthSpaceOrder",
    "DepthToSpace1OperatorDesc",
    "DepthToSpaceOperatorDesc",
    "DescError",
    "Device",
    "DiagonalMatrix1OperatorDesc",
    "DiagonalMatrixOperatorDesc",
    "ElementWiseIdentityOperatorDesc",
    "FeatureLevel",
    "FillValueConstantOperatorDesc",
    "FillValueSequenceOperatorDesc",
    "FuseError",
    "GatherElementsOperatorDesc",
    "GatherNd1OperatorDesc",
    "GatherNdOperatorDesc",
    "GatherOperatorDesc",
    "InterpolationMode",
    "JoinOperatorDesc",
    "ModelError",
    "OneHotOperatorDesc",
    "OperatorDesc",
    "Padding1OperatorDesc",
    "PaddingMode",
    "PaddingOperatorDesc",
    "Problem",
    "ReverseSubsequencesOperatorDesc",
    "ScaleBias",
    "ScatterNdOperatorDesc",
    "ScatterOperatorDesc",
    "Size2D",
    "Slice1OperatorDesc",
    "SliceGradOperatorDesc",
    "SliceOperatorDesc",
    "SpaceToDepth1OperatorDesc",
    "SpaceToDepthOperatorDesc",
    "SplitOperatorDesc",
    "SplitTrainingOperatorDesc",
    "TensorDesc",
    "TensorFlags",
    "TileOperatorDesc",
    "UnfoldOperatorDesc",
    "Upsample2dOperatorDesc",
    "__version__",
    "concat_training",
    "copy",
    "empty_cache",
    "fuse",
    "gather",
    "get_num_threads",
    "join",
    "set_cache_limit",
    "set_num_threads",
    "slice",
    "slice1",
    "split",
    "split_training",
]
