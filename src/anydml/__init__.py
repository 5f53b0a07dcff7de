"""anydml: DirectML's data-movement operators, described, checked, explained and run anywhere Python runs.

Descs (`SplitOperatorDesc` …) say what an operator is; `desc.check` holds it against a feature level; `Device` compiles
it, binds buffers and dispatches. `split`, `join`, `slice`, `slice1`, `gather`, `split_training` and `concat_training`
do the same to arrays in one call; `copy` moves the elements of any view; `fuse` makes a chain of
moves one pass.
"""

from anydml._version import __version__
from anydml.backends.cpu.pool import get_num_threads, set_num_threads
from anydml.device import BoundOperator, CompiledOperator, Device
from anydml.errors import BindingError, DescError, FuseError, ModelError
from anydml.feature_level import FeatureLevel
from anydml.functions import concat_training, gather, join, slice, slice1, split, split_training
from anydml.functions.copying import copy
from anydml.graph import fuse
from anydml.operators import (
    ConcatTrainingOperatorDesc,
    GatherOperatorDesc,
    JoinOperatorDesc,
    OperatorDesc,
    Problem,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    SplitOperatorDesc,
    SplitTrainingOperatorDesc,
)
from anydml.tensor import DataType, TensorDesc, TensorFlags

__all__ = [
    "BindingError",
    "BoundOperator",
    "CompiledOperator",
    "ConcatTrainingOperatorDesc",
    "DataType",
    "DescError",
    "Device",
    "FeatureLevel",
    "FuseError",
    "GatherOperatorDesc",
    "JoinOperatorDesc",
    "ModelError",
    "OperatorDesc",
    "Problem",
    "Slice1OperatorDesc",
    "SliceOperatorDesc",
    "SplitOperatorDesc",
    "SplitTrainingOperatorDesc",
    "TensorDesc",
    "TensorFlags",
    "__version__",
    "concat_training",
    "copy",
    "fuse",
    "gather",
    "get_num_threads",
    "join",
    "set_num_threads",
    "slice",
    "slice1",
    "split",
    "split_training",
]
