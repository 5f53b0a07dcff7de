"""What is known of operators that compute: which elements they make theirs of."""

from __future__ import annotations

from anydml.slim.following import Following
from anydml.slim.graph import Op

_NAMES = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu
    Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean
    Min Mish Mod Mul Neg Not Or Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt
    Sub Sum Tan Tanh ThresholdedRelu Where Xor
"""

ELEMENTWISE = frozenset(_NAMES.split())
"""Operators whose result's elements are made of those at the same place, after broadcasting."""

ONE_AXIS = 13
"""Opset from which on Softmax is along one axis; before, it is along all from that one on."""


def row_axes(op: Op, following: Following) -> list[int] | None:
    """Along which axes a node computes rows, or reduces them; None of another node, or where they are not known."""
    value = following.values.get(op.inputs[0]) if op.inputs else None
    if value is None or value.tensor is None or not value.sizes:
        return None
    rank = len(value.sizes)
    if op.kind in ("Softmax", "LogSoftmax") and following.graph.opset >= ONE_AXIS:
        return [op.integer("axis", -1) % rank]
    if op.kind == "LayerNormalization" and len(op.outputs) == 1:
        return [*range(op.integer("axis", -1) % rank, rank)]
    if op.kind.startswith("Reduce"):
        given = op.attribute("axes")
        axes = [*given.ints] if given is not None else []
        more = following.values.get(op.inputs[1]) if len(op.inputs) > 1 and op.inputs[1] else None
        if more is not None and more.tensor is not None and more.tensor.array is not None:
            axes = more.tensor.array.tolist()
        return sorted(axis % rank for axis in axes) or None
    return None


def is_plain_gemm(op: Op) -> bool:
    """Whether a Gemm multiplies by no numbers."""
    factors = [each.f or each.i for each in op.proto.attribute if each.name in ("alpha", "beta")]
    return all(factor == 1 for factor in factors)
