"""PyDirectML's builder: imported in the place of ``pydirectml``, it runs a script's data movement.

Names and signatures are those of Microsoft's `pydirectml` module, with DirectMLX's `Split` as `split`. What computes is
there, and says that it does. Differences: data has the tensor's data type, where `pydirectml` knows FLOAT32 only;
inputs that no output needs may be left unbound; a broken rule is a `DescError` or a `BindingError` that names it.
"""

from __future__ import annotations

from anydml.pydirectml import computing, enums, moving
from anydml.pydirectml.builder import Device, GraphBuilder, Model, input_tensor
from anydml.pydirectml.computing import *  # noqa: F403  # as many names as there are functions
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
from anydml.pydirectml.moving import *  # noqa: F403  # those that move
from anydml.pydirectml.tensors import (
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
__all__ += moving.__all__
__all__ += computing.__all__
