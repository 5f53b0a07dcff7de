"""PyDirectML's functions that compute; each raises DescError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from anydml.errors import DescError
from anydml.pydirectml.expressions import COMPUTES

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


def _refused(name: str) -> Callable[..., NoReturn]:
    def function(*arguments: Any, **named: Any) -> NoReturn:
        message = f"{name} computes: {COMPUTES}: compute it elsewhere, and bind the result as an input"
        raise DescError(message, name, None, COMPUTES)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = DOCSTRING.format(name=name, computes=COMPUTES)
    return function


activation_linear = _refused("activation_linear")
activation_relu = _refused("activation_relu")
activation_sigmoid = _refused("activation_sigmoid")
activation_soft_max = _refused("activation_soft_max")
activation_tanh = _refused("activation_tanh")
add = _refused("add")
average_pooling = _refused("average_pooling")
batch_normalization = _refused("batch_normalization")
convolution = _refused("convolution")
divide = _refused("divide")
gemm = _refused("gemm")
gru = _refused("gru")
local_response_normalization = _refused("local_response_normalization")
max_pooling = _refused("max_pooling")
mean_variance_normalization = _refused("mean_variance_normalization")
multiply = _refused("multiply")
subtract = _refused("subtract")
value_scale_2d = _refused("value_scale_2d")

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
