"""Arrays whose single elements lie far apart, copied before they are looked up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml.functions.arguments import is_movable
from anydml.functions.calling import call
from anydml.functions.operations import COPY
from anydml.operators.function import Parameters

Array = np.ndarray[Any, Any]

APART = 64 << 10
"""Bytes of an array whose single elements lie far apart: where at least all of more are picked, they are found faster
in a copy in which they lie side by side."""


def packed(name: str, operation: Any, inputs: tuple[Array, ...], arguments: Parameters, out: Any) -> tuple[Array, ...]:
    """The inputs, the first of them packed where so much of it is picked that its elements should lie side by side.

    Args:
        name: what errors call the function.
        operation: what it does.
        inputs: NumPy's; the first has more than `APART` bytes.
        arguments: those of `operation`.
        out: the caller's.
    """
    x = inputs[0]
    if not x.ndim or x.strides[-1] == x.itemsize or not is_movable(x.dtype):
        return inputs
    # Where `out` may lie over x, x itself is what the checks must see.
    if out is not None and not (type(out) is np.ndarray and not np.may_share_memory(x, out)):
        return inputs
    (shape,) = operation.infer(name, [array.shape for array in inputs], arguments).shapes
    if math.prod(shape) < x.size:
        return inputs
    return (*call(name, COPY, (x,), (), None, None), *inputs[1:])
