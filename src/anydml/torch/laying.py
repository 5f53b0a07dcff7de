"""The operator lay_into_zeros, the gradient of slices: registered with PyTorch only."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.moves import Move
from anydml.operators.function import Array, Inferred, Ints, Parameters, Sizes, described
from anydml.operators.regions import filled
from anydml.operators.slice_grad import laid_into_zeros, laid_moves
from anydml.operators.ways import general
from anydml.tensor import Layout


def _infer(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    result, starts, steps = laid_into_zeros(name, *shapes, *arguments)
    return Inferred((starts, steps), [result])


def _lower(
    inputs: Sequence[Layout], outputs: Sequence[Layout], parameters: Parameters, is_packed: bool
) -> tuple[Move, ...]:
    (source,), (output,) = inputs, outputs
    if 0 in source.sizes:
        return (filled(1, output, bytes(output.element_size)),)
    return laid_moves(source, output, *parameters)


def lay_into_zeros(x: Array, sizes: Ints, starts: Ints, steps: Ints, *, out: Array | None = None) -> Array:
    """Scatter x into zeros: ``result[starts + steps · c] = x[c]``; the gradient of slice and slice1."""
    return general(x, sizes, starts, steps, out)


LAY_INTO_ZEROS = described(lay_into_zeros, _infer, _lower)
