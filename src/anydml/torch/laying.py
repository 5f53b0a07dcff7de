"""The operator lay_into_zeros, the gradient of slices: registered with PyTorch only."""

from __future__ import annotations

from anydml.operators.function import Array, Ints, described
from anydml.operators.slice_grad import check_laid, lay_rule


def lay_into_zeros(x: Array, sizes: Ints, starts: Ints, steps: Ints, *, out: Array | None = None) -> Array:
    """Scatter x into zeros: ``result[starts + steps · c] = x[c]``; the gradient of slice and slice1."""


LAY_INTO_ZEROS = described(lay_into_zeros, check_laid, rule=lay_rule)
