"""Rearrange checkpoints, arrays and ONNX models in a single pass, at memory bandwidth, and see what moves where.

Descs (`SplitOperatorDesc` …) describe operators: `desc.check` validates one against a feature level, and `Device`
compiles it, binds buffers and dispatches. Functions (`split`, `join` …; all are in `anydml.functions`) run an operator
on arrays in one call. `copy` copies the elements of any view, and `fuse` turns a chain of moves into a single pass.
"""

# isort: off
from anydml import _starting  # noqa: F401  # first: handles Ctrl-C during the imports below

# isort: on
import importlib
from typing import TYPE_CHECKING

from anydml._version import __version__
from anydml.device import BoundOperator, CompiledGraph, CompiledOperator, Device
from anydml.elsewhere import unknown
from anydml.engines.cpu.threads import get_num_threads, set_num_threads
from anydml.errors import BindingError, DescError, FuseError, ModelError
from anydml.explain import explain
from anydml.feature_level import FeatureLevel
from anydml.functions.copying import copy
from anydml.functions.finding import compress, nonzero_coordinates
from anydml.graph.desc import GraphDesc
from anydml.graph.parts import (
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
from anydml.tracing import fuse

if TYPE_CHECKING:
    from anydml.operators.registry import *  # noqa: F403
else:
    from anydml import _loading, functions, operators  # noqa: F401  # _loading registers hooks of higher packages

    globals().update({name: getattr(operators, name) for name in DESCS})
    globals().update({name: getattr(functions, name) for name in FUNCTIONS})

    _PACKAGES = ("dask", "dxdispatch", "onnx", "proving", "pydirectml", "slim", "stores", "torch")

    def __getattr__(name):  # noqa: ANN001, ANN202  # type checkers see the names above
        """Import a package on first access."""
        if name in _PACKAGES:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(unknown(__name__, name, (*__all__, *_PACKAGES)))


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
    "__version__",
    "compress",
    "copy",
    "empty_cache",
    "explain",
    "fuse",
    "get_num_threads",
    "nonzero_coordinates",
    "set_cache_limit",
    "set_num_threads",
    *DESCS,
    *FUNCTIONS,
]


def __dir__() -> list[str]:
    return __all__
