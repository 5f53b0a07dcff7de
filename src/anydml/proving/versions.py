"""Versions of operators that differ only in the types that they take, and in attributes that have defaults."""

from __future__ import annotations

from anydml.proving.elementwise import ELEMENTWISE_OPERATORS

_FROM_11 = """
    AveragePool BitShift Compress Concat Conv ConvTranspose CumSum DepthToSpace Det Flatten Gather GatherElements
    GatherND If Loop LpPool MaxPool MaxUnpool NonMaxSuppression OneHot Pad Resize Scan ScatterElements ScatterND
    SplitToSequence TopK Unique
"""

_REDUCING = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare
"""

FIRST_MEANINGS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_FROM_11.split(), (11,)),
    **dict.fromkeys(("BatchNormalization", "ConstantOfShape", "EyeLike", "MeanVarianceNormalization", "NonZero"), (9,)),
    **dict.fromkeys(_REDUCING.split(), (11, 18)),
    **dict.fromkeys(("GRU", "Gemm", "LSTM", "PRelu", "RNN"), (7,)),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "LRN", "LpNormalization", "MatMul", "Transpose"), (1,)),
    **dict.fromkeys(("QLinearMatMul", "ReverseSequence"), (10,)),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), (10, 13)),
    **dict.fromkeys(("Einsum", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), (12,)),
    "Clip": (11,), "DeformConv": (19,), "Expand": (8,), "GridSample": (16, 20), "InstanceNormalization": (6,),
    "Mod": (10, 28), "ReduceSum": (11, 13), "Reshape": (5,), "RoiAlign": (10, 16), "Tile": (6,),
}  # fmt: skip
"""The versions of operators from which on they mean something else; those below the first stand for themselves."""

_BROADCAST = 8
"""The first opset in which all element-wise operators broadcast alike."""

_CHANGED_ELEMENTWISE = frozenset(("Clip", "Mod"))
"""Element-wise operators whose inputs, or results for some types, are not those of later versions."""


def meaning_of(operator: str, version: int, opset: int) -> int:
    """Return the first version of an operator of ONNX that computes what this one does.

    Args:
        operator: the operator's name.
        version: the opset that introduced this version.
        opset: the opset of the node.
    """
    if operator in ELEMENTWISE_OPERATORS - _CHANGED_ELEMENTWISE and opset >= _BROADCAST:
        return 1
    return max((first for first in FIRST_MEANINGS.get(operator, ()) if first <= version), default=version)
