"""The public names, but for `fuse` and packages; `anydml` takes them from here."""

from typing import TYPE_CHECKING

from anydml.device import BoundOperator, CompiledGraph, CompiledOperator, Device
from anydml.engines.cpu.threads import get_num_threads, set_num_threads
from anydml.errors import BindingError, DescError, FuseError, ModelError
from anydml.explain import explain
from anydml.feature_level import FeatureLevel
from anydml.functions.copying import copy
from anydml.functions.nonzero_functions import compress, nonzero_coordinates
from anydml.graph.desc import GraphDesc
from anydml.graph.structs import (
    ConstantDataGraphNodeDesc,
    ExecutionFlags,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
)
from anydml.memory.results import empty_cache, set_cache_limit
from anydml.operators import OperatorDesc, Problem
from anydml.operators.enums import AxisDirection, DepthSpaceOrder, InterpolationMode, PaddingMode, ScaleBias, Size2D
from anydml.operators.registry import DESCS, FUNCTIONS
from anydml.tensor import DataType, TensorDesc, TensorFlags

if TYPE_CHECKING:
    from anydml.operators.registry import *  # noqa: F403
else:
    from anydml import functions, operators

    globals().update({name: getattr(operators, name) for name in DESCS})
    globals().update({name: getattr(functions, name) for name in FUNCTIONS})

__all__ = [  # noqa: PLE0604  # the registry's keys are names
    "AxisDirection",
    "BindingError",
    "BoundOperator",
    "CompiledGraph",
    "CompiledOperator",
    "ConstantDataGraphNodeDesc",
    "DataType",
    "DepthSpaceOrder",
    "DescError",
    "Device",
    "ExecutionFlags",
    "FeatureLevel",
    "FuseError",
    "GraphDesc",
    "InputGraphEdgeDesc",
    "IntermediateGraphEdgeDesc",
    "InterpolationMode",
    "ModelError",
    "OperatorDesc",
    "OperatorGraphNodeDesc",
    "OutputGraphEdgeDesc",
    "PaddingMode",
    "Problem",
    "ScaleBias",
    "Size2D",
    "TensorDesc",
    "TensorFlags",
    "compress",
    "copy",
    "empty_cache",
    "explain",
    "get_num_threads",
    "nonzero_coordinates",
    "set_cache_limit",
    "set_num_threads",
    *DESCS,
    *FUNCTIONS,
]
