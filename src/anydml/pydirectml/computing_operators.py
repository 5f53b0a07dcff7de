"""PyDirectML's functions that compute; each raises DescError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from anydml.errors import DescError
from anydml.pydirectml.expressions import BIND_RESULT, COMPUTES

DOCSTRING = """PyDirectML's `{name}`, which computes.

Raises:
    DescError: always.

Examples:
    >>> import anydml.pydirectml as pydml
    >>> pydml.{name}()
    Traceback (most recent call last):
      ...
    anydml.errors.DescError: {name} computes: {computes}: compute it elsewhere, and bind the result as an input
"""


def _refuse(name: str) -> Callable[..., NoReturn]:
    def function(*arguments: Any, **named: Any) -> NoReturn:
        message = f"{name} computes: {COMPUTES}: {BIND_RESULT}"
        raise DescError(message, name, None, COMPUTES)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = DOCSTRING.format(name=name, computes=COMPUTES)
    return function


activation_linear = _refuse("activation_linear")
activation_relu = _refuse("activation_relu")
activation_sigmoid = _refuse("activation_sigmoid")
activation_soft_max = _refuse("activation_soft_max")
activation_tanh = _refuse("activation_tanh")
add = _refuse("add")
average_pooling = _refuse("average_pooling")
batch_normalization = _refuse("batch_normalization")
convolution = _refuse("convolution")
divide = _refuse("divide")
gemm = _refuse("gemm")
gru = _refuse("gru")
local_response_normalization = _refuse("local_response_normalization")
max_pooling = _refuse("max_pooling")
mean_variance_normalization = _refuse("mean_variance_normalization")
multiply = _refuse("multiply")
subtract = _refuse("subtract")
value_scale_2d = _refuse("value_scale_2d")

__all__ = [
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_soft_max",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "divide",
    "gemm",
    "gru",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multiply",
    "subtract",
    "value_scale_2d",
]
