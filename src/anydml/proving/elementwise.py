"""Operators that compute element by element."""

_NAMES = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu
    Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean
    Min Mish Mod Mul Neg Not Or Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt
    Sub Sum Tan Tanh ThresholdedRelu Where Xor
"""

ELEMENTWISE_OPERATORS = frozenset(_NAMES.split())
"""Operators for which each element of the result depends on the elements at the same place of the broadcast inputs."""

QUANTIZING_OPERATORS = frozenset(("DequantizeLinear", "QuantizeLinear"))
"""Operators that are elementwise, too, if their scale has no axis."""


def permutation_of(equation: str) -> list[int] | None:
    """Return the order of axes of an Einsum that only transposes; None for any other Einsum."""
    subscripts, arrow, result = equation.replace(" ", "").partition("->")
    is_plain = subscripts.isalpha() and len({*subscripts}) == len(subscripts)
    if not is_plain or sorted(result if arrow else subscripts) != sorted(subscripts):
        return None
    return [subscripts.index(letter) for letter in (result if arrow else sorted(subscripts))]
