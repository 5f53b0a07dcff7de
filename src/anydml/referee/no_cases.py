"""Operators of ONNX without cases, by the reason; all others up to the referee's last opset have cases."""

from __future__ import annotations

from collections.abc import Mapping

from anydml.referee.schema_texts import FIRST, LAST, first_versions

_BY_REASON: Mapping[str, str] = {
    "it computes numbers": """
        Abs Acos Acosh Add AffineGrid Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BitShift BitwiseAnd
        BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Ceil Celu Conv ConvInteger ConvTranspose Cos Cosh CumSum DFT
        DeformConv DequantizeLinear Det Div DynamicQuantizeLinear Elu Erf Exp Floor GRU Gelu Gemm GlobalAveragePool
        GlobalLpPool GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish InstanceNormalization LRN LSTM
        LayerNormalization LeakyRelu Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Mean
        MeanVarianceNormalization MelWeightMatrix Mish Mod Mul Neg NegativeLogLikelihoodLoss PRelu Pow QLinearConv
        QLinearMatMul QuantizeLinear RMSNormalization RNN Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
        ReduceMean ReduceProd ReduceSum ReduceSumSquare RoiAlign RotaryEmbedding Round STFT Selu Shrink Sigmoid Sign Sin
        Sinh Softmax SoftmaxCrossEntropyLoss Softplus Softsign Sqrt Sub Sum Swish Tan Tanh TfIdfVectorizer
        ThresholdedRelu
    """,
    "it compares elements, and gives booleans": """
        And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or RegexFullMatch Xor
    """,
    "which elements it gives depends on which is larger": """
        ArgMax ArgMin Clip GlobalMaxPool Hardmax Max MaxPool MaxRoiPool Min NonMaxSuppression ReduceMax ReduceMin Relu
        TopK
    """,
    "which elements it gives depends on which are equal": "Unique",
    "it draws at random": """
        Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike
    """,
    "it makes texts of others": "StringConcat StringNormalizer StringSplit",
    "it decodes a file's bytes": "ImageDecoder",
    "it runs graphs: what moves is decided by their nodes, which have cases of their own": "If Loop Scan SequenceMap",
    "it adds products; an equation of one term that sums nothing moves, but no sentence of its text says so alone": (
        "Einsum"
    ),
    "it computes the places that it picks of a grid's elements": "GridSample",
    "it adds elements where blocks overlap": "Col2Im",
    "the text does not say in which tensor its indices count where output_shape is given, nor the result's sizes where "
    "it is not": "MaxUnpool",
    "it is deprecated, and does what ScatterElements does": "Scatter",
    "it is deprecated, and does what Resize does": "Upsample",
}

REASONS: Mapping[str, str] = {name: reason for reason, names in _BY_REASON.items() for name in names.split()}
"""Reasons why operators have no cases, by the operator's type."""


def reason_of(name: str) -> str:
    """Return the reason why an operator has no cases; empty for operators that are not ONNX's."""
    version = first_versions().get(name)
    if version is None:
        return ""
    if version > LAST:
        return f"it is of opset {version}, and cases are of opsets {FIRST} to {LAST}"
    return REASONS.get(name, "")
