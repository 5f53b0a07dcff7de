"""The operator lay_into_zeros, the gradient of slices: registered with PyTorch only."""

from __future__ import annotations

from typing import Any

from anydml.operators.function import Array, Inferred, Ints, Sizes, described
from anydml.operators.slice_grad import laid_into_zeros, lower_laid


def _infer(name: str, shape: Sizes, *arguments: Any) -> Inferred:
    result, starts, steps = laid_into_zeros(name, shape, *arguments)
    return Inferred((starts, steps), [result])


def lay_into_zeros(x: Array, sizes: Ints, starts: Ints, steps: Ints, *, out: Array | None = None) -> Array:
    """Scatter x into zeros: ``result[starts + steps · c] = x[c]``; the gradient of slice and slice1."""


LAY_INTO_ZEROS = described(lay_into_zeros, _infer, lower_laid)
