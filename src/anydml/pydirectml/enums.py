"""PyDirectML's enumerations, with DirectML's values."""

from __future__ import annotations

import enum

from anydml.graph.structs import ExecutionFlags
from anydml.operators.enums import InterpolationMode, PaddingMode
from anydml.tensor import TensorFlags


class TensorDataType(enum.IntEnum):
    """DML_TENSOR_DATA_TYPE.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> int(pydml.TensorDataType.FLOAT16)
        2
    """

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11


class MatrixTransform(enum.IntEnum):
    """DML_MATRIX_TRANSFORM.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> int(pydml.MatrixTransform.TRANSPOSE)
        1
    """

    NONE = 0
    TRANSPOSE = 1


class RecurrentNetworkDirection(enum.IntEnum):
    """DML_RECURRENT_NETWORK_DIRECTION.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> int(pydml.RecurrentNetworkDirection.BIDIRECTIONAL)
        2
    """

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


class OutputOptions(enum.IntEnum):
    """DirectMLX's GRUOutputOptions.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> int(pydml.OutputOptions.Single)
        2
    """

    Both = 0
    Sequence = 1
    Single = 2


class ConvolutionMode(enum.IntEnum):
    """DML_CONVOLUTION_MODE.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> int(pydml.ConvolutionMode.CROSS_CORRELATION)
        1
    """

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(enum.IntEnum):
    """DML_CONVOLUTION_DIRECTION.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> int(pydml.ConvolutionDirection.BACKWARD)
        1
    """

    FORWARD = 0
    BACKWARD = 1


_ELEMENT_WISE = """
    IDENTITY ABS ACOS ADD ASIN ATAN CEIL CLIP COS DIVIDE EXP FLOOR LOG LOGICAL_AND LOGICAL_EQUALS LOGICAL_GREATER_THAN
    LOGICAL_LESS_THAN LOGICAL_NOT LOGICAL_OR LOGICAL_XOR MAX MEAN MIN MULTIPLY POW CONSTANT_POW RECIP SIN SQRT SUBTRACT
    TAN THRESHOLD QUANTIZE_LINEAR DEQUANTIZE_LINEAR
"""
_ACTIVATIONS = """
    ELU HARDMAX HARD_SIGMOID IDENTITY LEAKY_RELU LINEAR LOG_SOFTMAX PARAMETERIZED_RELU PARAMETRIC_SOFTPLUS RELU
    SCALED_ELU SCALED_TANH SIGMOID SOFTMAX SOFTPLUS SOFTSIGN TANH THRESHOLDED_RELU
"""
_OTHERS = """
    CONVOLUTION GEMM REDUCE AVERAGE_POOLING LP_POOLING MAX_POOLING ROI_POOLING SLICE CAST SPLIT JOIN PADDING
    VALUE_SCALE_2D UPSAMPLE_2D GATHER SPACE_TO_DEPTH DEPTH_TO_SPACE TILE TOP_K BATCH_NORMALIZATION
    MEAN_VARIANCE_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION LP_NORMALIZATION RNN LSTM GRU
"""
_LATER = """
    ELEMENT_WISE_SIGN ELEMENT_WISE_IS_NAN ELEMENT_WISE_ERF ELEMENT_WISE_SINH ELEMENT_WISE_COSH ELEMENT_WISE_TANH
    ELEMENT_WISE_ASINH ELEMENT_WISE_ACOSH ELEMENT_WISE_ATANH ELEMENT_WISE_IF ELEMENT_WISE_ADD1 ACTIVATION_SHRINK
    MAX_POOLING1 MAX_UNPOOLING DIAGONAL_MATRIX SCATTER ONE_HOT RESAMPLE
"""
_TYPES = (
    "INVALID",
    *(f"ELEMENT_WISE_{name}" for name in _ELEMENT_WISE.split()),
    *(f"ACTIVATION_{name}" for name in _ACTIVATIONS.split()),
    *_OTHERS.split(),
    *_LATER.split(),
)

OperatorType = enum.IntEnum("OperatorType", [(name, value) for value, name in enumerate(_TYPES)])  # type: ignore[misc]
OperatorType.__doc__ = """DML_OPERATOR_TYPE, limited to PyDirectML's members.

Examples:
    >>> import anydml.pydirectml as pydml
    >>> int(pydml.OperatorType.ELEMENT_WISE_IDENTITY)
    1
"""

EXPORTED = {
    name: member
    for kind in (
        TensorDataType,
        TensorFlags,
        MatrixTransform,
        RecurrentNetworkDirection,
        ConvolutionMode,
        ConvolutionDirection,
        InterpolationMode,
        PaddingMode,
        ExecutionFlags,
        OperatorType,
    )
    for name, member in kind.__members__.items()
}
"""Enumeration members that the module also exports; on name clashes the later enumeration wins, as in pybind11."""

__all__ = [
    "EXPORTED",
    "ConvolutionDirection",
    "ConvolutionMode",
    "ExecutionFlags",
    "InterpolationMode",
    "MatrixTransform",
    "OperatorType",
    "OutputOptions",
    "PaddingMode",
    "RecurrentNetworkDirection",
    "TensorDataType",
    "TensorFlags",
]
