"""FILL_VALUE_CONSTANT, FILL_VALUE_SEQUENCE, DIAGONAL_MATRIX1, NONZERO_COORDINATES, and operators without a desc."""

from __future__ import annotations

from collections.abc import Callable

from anydml.onnx.directml.described import Described, filled_up, not_ours
from anydml.onnx.nodes.making import filling
from anydml.operators import (
    DiagonalMatrix1OperatorDesc,
    FillValueConstantOperatorDesc,
    FillValueSequenceOperatorDesc,
    NonzeroCoordinatesOperatorDesc,
    OperatorDesc,
)
from anydml.tensor import DataType, TensorDesc

LEAST, MOST = -(2**31), 2**31 - 1
"""The range of an INT."""


def constant_of_shape(known: Described) -> OperatorDesc | None:
    """FILL_VALUE_CONSTANT."""
    (output,) = known.descs(known.output)
    return FillValueConstantOperatorDesc(output, output.data_type, filling(known.node).item())


def range_(known: Described) -> OperatorDesc | None:
    """FILL_VALUE_SEQUENCE."""
    (output,) = known.descs(known.output)
    start, delta = (known.ctx.known(known.node, known.input(k), "start").reshape(()).item() for k in (0, 2))
    return FillValueSequenceOperatorDesc(output, output.data_type, start, delta)


def eye_like(known: Described) -> OperatorDesc | None:
    """DIAGONAL_MATRIX1 without an input."""
    (output,) = known.descs(known.output)
    k = known.node.get("k")
    return DiagonalMatrix1OperatorDesc(None, output, output.data_type, 1, k, k + 1)


def trilu(known: Described) -> OperatorDesc | None:
    """DIAGONAL_MATRIX1 that writes zeros to the other triangle."""
    source, output = known.descs(known.input(0), known.output)
    given = known.given(1)
    k = 0 if given is None else int(known.ctx.known(known.node, given, "k").reshape(()).item())
    begin, end = (LEAST, k) if known.node.get("upper") else (k + 1, MOST)
    return DiagonalMatrix1OperatorDesc(source, output, output.data_type, 0, begin, end)


def non_zero(known: Described) -> OperatorDesc | None:
    """NONZERO_COORDINATES as in ONNX Runtime's provider: one count, and one row per element."""
    x = known.input(0)
    (source,) = known.descs(x)
    rows = filled_up((x.size, max(1, len(x.shape))), known.count())
    count = TensorDesc(DataType.UINT32, (1,) * known.count())
    return NonzeroCoordinatesOperatorDesc(source, count, TensorDesc(DataType.UINT32, rows))


def other(name: str) -> Callable[[Described], OperatorDesc | None]:
    """Return a `describe` function for nodes whose DirectML operator anydml has no desc for."""
    return lambda known: not_ours(name)
