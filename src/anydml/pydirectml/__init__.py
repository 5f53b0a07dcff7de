"""A drop-in replacement for ``pydirectml`` that runs the data-movement operators.

Names and signatures are those of Microsoft's `pydirectml` module, plus DirectMLX's `Split` as `split`. Functions that
compute exist, but raise `DescError`. Three differences: data has the tensor's data type, where `pydirectml` supports
FLOAT32 only; inputs that no output depends on may be left unbound; and a violated rule raises a `DescError` or
`BindingError` that names it.
"""

from __future__ import annotations

from anydml.pydirectml import computing_operators, enums, moving_operators
from anydml.pydirectml.builder import Device, GraphBuilder, Model, input_tensor
from anydml.pydirectml.computing_operators import *  # noqa: F403  # all functions that compute
from anydml.pydirectml.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    ExecutionFlags,
    InterpolationMode,
    MatrixTransform,
    OperatorType,
    OutputOptions,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
    TensorFlags,
)
from anydml.pydirectml.expressions import Binding, Expression, GRUOutputs, MaxPoolingOutputs
from anydml.pydirectml.moving_operators import *  # noqa: F403  # all functions that move elements
from anydml.pydirectml.tensor_descs import (
    Dimensions,
    FusedActivation,
    Size2D,
    TensorData,
    TensorDesc,
    TensorPolicy,
)

globals().update(enums.EXPORTED)

__all__ = [
    "Binding",
    "ConvolutionDirection",
    "ConvolutionMode",
    "Device",
    "Dimensions",
    "ExecutionFlags",
    "Expression",
    "FusedActivation",
    "GRUOutputs",
    "GraphBuilder",
    "InterpolationMode",
    "MatrixTransform",
    "MaxPoolingOutputs",
    "Model",
    "OperatorType",
    "OutputOptions",
    "PaddingMode",
    "RecurrentNetworkDirection",
    "Size2D",
    "TensorData",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "TensorPolicy",
    "input_tensor",
]
__all__ += moving_operators.__all__
__all__ += computing_operators.__all__
