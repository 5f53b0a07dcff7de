"""Operators that compute element by element."""

_NAMES = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu
    Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean
    Min Mish Mod Mul Neg Not Or Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt
    Sub Sum Tan Tanh ThresholdedRelu Where Xor
"""

ELEMENTWISE = frozenset(_NAMES.split())
"""Operators each element of whose result depends on the elements at the same place, after broadcasting."""
