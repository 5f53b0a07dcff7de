"""The public names that every program gets with `import anydml`."""

from anydml.engines.cpu.threads import get_num_threads, set_num_threads
from anydml.errors import AnydmlError, BindingError, DescError, FuseError, ModelError
from anydml.explain import explain
from anydml.feature_level import FeatureLevel
from anydml.functions.copying import copy
from anydml.memory.results import empty_cache, set_cache_limit
from anydml.operators import OperatorDesc, Problem
from anydml.operators.enums import AxisDirection, DepthSpaceOrder, InterpolationMode, PaddingMode, ScaleBias, Size2D
from anydml.tensor import DataType, TensorDesc, TensorFlags

__all__ = [
    "AnydmlError",
    "AxisDirection",
    "BindingError",
    "DataType",
    "DepthSpaceOrder",
    "DescError",
    "FeatureLevel",
    "FuseError",
    "InterpolationMode",
    "ModelError",
    "OperatorDesc",
    "PaddingMode",
    "Problem",
    "ScaleBias",
    "Size2D",
    "TensorDesc",
    "TensorFlags",
    "copy",
    "empty_cache",
    "explain",
    "get_num_threads",
    "set_cache_limit",
    "set_num_threads",
]
