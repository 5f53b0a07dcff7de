"""FILL_VALUE_CONSTANT, FILL_VALUE_SEQUENCE, DIAGONAL_MATRIX1, NONZERO_COORDINATES, and operators without a desc."""

from __future__ import annotations

from anydml.onnx.directml.described import Described, filled_up
from anydml.onnx.graph_values import Tensor
from anydml.onnx.lowering import UnknownElementsError
from anydml.onnx.nodes.making import filling
from anydml.onnx.nodes.node_arguments import scalar
from anydml.operators import (
    DiagonalMatrix1OperatorDesc,
    FillValueConstantOperatorDesc,
    FillValueSequenceOperatorDesc,
    NonzeroCoordinatesOperatorDesc,
    OperatorDesc,
)
from anydml.tensor import DataType, TensorDesc

MIN_INT = -(2**31)
"""The lowest INT."""

MAX_INT = 2**31 - 1
"""The highest INT."""


def constant_of_shape(described: Described, sizes: Tensor) -> OperatorDesc | None:
    """FILL_VALUE_CONSTANT."""
    (output,) = described.descs(described.output)
    return FillValueConstantOperatorDesc(output, output.data_type, filling(described.node).item())


def range_(described: Described, start: Tensor, limit: Tensor, delta: Tensor) -> OperatorDesc | None:
    """FILL_VALUE_SEQUENCE."""
    (output,) = described.descs(described.output)
    first, step = (scalar(described.node, described.ctx, scalar_value, "start") for scalar_value in (start, delta))
    return FillValueSequenceOperatorDesc(output, output.data_type, first, step)


def eye_like(described: Described, x: Tensor) -> OperatorDesc | None:
    """DIAGONAL_MATRIX1 without an input."""
    (output,), k = described.descs(described.output), described.node.get("k")
    return DiagonalMatrix1OperatorDesc(None, output, output.data_type, 1, k, k + 1)


def trilu(described: Described, x: Tensor, diagonal: Tensor | None) -> OperatorDesc | None:
    """DIAGONAL_MATRIX1 that writes zeros to the other triangle."""
    source, output = described.descs(x, described.output)
    k = 0 if diagonal is None else scalar(described.node, described.ctx, diagonal, "k")
    begin, end = (MIN_INT, k) if described.node.get("upper") else (k + 1, MAX_INT)
    return DiagonalMatrix1OperatorDesc(source, output, output.data_type, 0, begin, end)


def non_zero(described: Described, x: Tensor) -> OperatorDesc | None:
    """NONZERO_COORDINATES as in ONNX Runtime's provider: one count, and one row per element."""
    (source,) = described.descs(x)
    rows = filled_up((x.size, max(1, len(x.shape))), described.count())
    count = TensorDesc(DataType.UINT32, (1,) * described.count())
    return NonzeroCoordinatesOperatorDesc(source, count, TensorDesc(DataType.UINT32, rows))


def cast(described: Described, *_: Tensor) -> OperatorDesc | None:
    """Refuse: anydml has no desc for CAST.

    Raises:
        UnknownElementsError: always.
    """
    raise UnknownElementsError("DirectML runs DML_OPERATOR_CAST there, which anydml does not check")
