"""Convolutions and normalizations as sums and products, so that constant factors can be merged into weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anydml.proving.fused import Apply
from anydml.proving.movement_terms import Mover
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.reassociation import split_scale
from anydml.proving.terms import Term


def decompose(apply: Apply, mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return a node's results as computed by simpler nodes; None if there are none.

    Args:
        apply: computes nodes.
        mover: makes terms.
        call: a node.
    """
    x = call.term(0)
    if call.domain or x is None or x.shape is None or x.dtype is None or x.dtype.kind != "f" or x.is_constant:
        return None
    match call.operator:
        case "Conv":
            return _convolution(apply, mover, call, x)
        case "BatchNormalization":
            return _normalize(apply, mover, call, x)
    return None


def _convolution(apply: Apply, mover: Mover, call: OperatorCall, x: Term) -> Sequence[Term] | None:
    """Return a convolution whose bias is added afterwards, and whose weights have the input's constant factor."""
    weights, bias = call.term(1), call.term(2)
    if weights is None or not weights.is_constant or (bias is not None and not bias.is_constant):
        return None
    if bias is not None and bias.shape != weights.sizes[:1]:
        # Runtimes refuse such a node.
        return None
    attributes = {attribute.name: call.get(attribute.name) for attribute in call.proto.attribute}
    if bias is not None:
        shape = (-1, *[1] * (len(x.sizes) - 2))
        result = apply("Conv", x, weights, **attributes)
        return [apply("Add", result, mover.reshape(bias, (*bias.sizes, *shape[1:])))]
    number, unscaled = split_scale(mover, x)
    if number == 1 or unscaled is None:
        return None
    factor = mover.terms.constant(np.array(number, x.dtype))
    return [apply("Conv", unscaled, apply("Mul", weights, factor), **attributes)]


def _normalize(apply: Apply, mover: Mover, call: OperatorCall, x: Term) -> Sequence[Term] | None:
    """Return x · scale / √(variance + epsilon) + (shift − mean · scale / √(variance + epsilon)), by channels."""
    arrays = [None if term is None or not term.is_constant else term.array for term in call.inputs[1:5]]
    constants = [array.astype(np.float64) for array in arrays if array is not None]
    is_training = call.get("training_mode", 0) or any([*call.proto.output][1:]) or call.version < _BY_CHANNEL
    if len(constants) != 4 or is_training or len(x.sizes) < 2:
        return None
    if any(array.shape != x.sizes[1:2] for array in constants):
        # Runtimes refuse such inputs.
        return None
    scale, shift, mean, variance = (array.reshape(-1, *[1] * (len(x.sizes) - 2)) for array in constants)
    squares = variance + call.get("epsilon", 1e-5)
    if not (squares > 0).all():
        return None
    factor = scale / np.sqrt(squares)
    by, offset = (mover.terms.constant(array, dtype=x.dtype) for array in (factor, shift - mean * factor))
    return [apply("Add", apply("Mul", x, by), offset)]


_BY_CHANNEL = 9
"""First opset in which BatchNormalization is by channels, and has one result unless it is for training."""
