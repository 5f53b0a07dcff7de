"""Rules of nodes that compute along axes: reductions, normalizations, ArgMax and similar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anydml.proving.aligned_inputs import PLAIN_AXIS, align_inputs, shared_axes
from anydml.proving.movement_terms import Mover
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.sizes import axis_of
from anydml.proving.terms import Term

AXIS_OPERATORS = {
    "Softmax": 1,
    "LogSoftmax": 1,
    "Hardmax": 13,
    "ArgMax": 1,
    "ArgMin": 1,
    "LayerNormalization": 17,
}
"""Operators with an axis that may be negative, and the first version in which it is a single axis."""


SOFTMAX_OF_ONE_AXIS = 13
"""The first opset in which Softmax works along one axis."""


def reduction(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return a reduction as one that keeps the reduced axes, and a Reshape that removes them."""
    term = call.term(0)
    if term is None or term.shape is None or term.is_constant:
        return None
    rank = len(term.shape)
    if not rank:
        return None
    listed_axes = call.axes(1)
    if listed_axes is None and call.term(1) is not None:
        return None
    if listed_axes is None or not listed_axes:
        if call.get("noop_with_empty_axes", 0):
            return None
        listed_axes = [*range(rank)]
    named = [axis_of(axis, rank) for axis in listed_axes]
    axes = sorted({axis for axis in named if axis is not None})
    if len(axes) < len(named):
        return None
    more = call.attributes(("axes", "keepdims", "noop_with_empty_axes"))
    kinds = ["reduced" if axis in axes else PLAIN_AXIS for axis in range(rank)]
    aligned = align_inputs(mover, [term], [range(rank)], term.shape, kinds, (0,))
    reduced = tuple(axis for axis, is_reduced in enumerate(aligned.kinds) if is_reduced)
    left = [size for size, is_reduced in zip(aligned.sizes, aligned.kinds, strict=True) if not is_reduced]
    reduced_term = mover.terms.make(call.operator, aligned.inputs, (reduced, more), term.dtype, left)
    if call.get("keepdims", 1):
        reduced_axes, shape = (
            [-1 if axis in axes else axis for axis in range(rank)],
            [1 if k in axes else n for k, n in enumerate(term.shape)],
        )
    else:
        reduced_axes = [axis for axis in range(rank) if axis not in axes]
        shape = [term.shape[axis] for axis in reduced_axes]
    return [aligned.result(mover, reduced_term, reduced_axes, tuple(shape))]


def along_axis(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the terms of a node that normalizes or searches along an axis."""
    term = call.term(0)
    if term is None or not term.shape or term.is_constant or len([*filter(None, call.proto.output)]) != 1:
        return None
    rank = len(term.shape)
    axis = axis_of(call.get("axis", -1), rank)
    if axis is None:
        return None
    more = call.attributes(("axis",))
    if call.operator in _ORDER_DEPENDENT:
        sizes = [1 if k == axis else size for k, size in enumerate(term.shape)]
        is_kept = call.operator == "Hardmax" or call.get("keepdims", 1)
        shape = [size for k, size in enumerate(sizes) if k != axis or is_kept]
        if call.operator == "Hardmax":
            return [mover.terms.make(call.operator, call.inputs, (axis, more), term.dtype, term.shape)]
        return [mover.terms.make(call.operator, call.inputs, (axis, more), np.dtype(np.int64), shape)]
    if any(term is None or term.shape is None or len(term.shape) > rank for term in call.inputs):
        return None
    terms = [term for term in call.inputs if term is not None]
    # Before opset 13, Softmax worked along all axes from one on.
    is_last = call.operator != "LayerNormalization" and call.version >= SOFTMAX_OF_ONE_AXIS
    last = axis + 1 if is_last else rank
    kinds = ["normalized" if axis <= k < last else PLAIN_AXIS for k in range(rank)]
    axes = shared_axes(terms, term.shape)
    if axes is None:
        return None
    if mover.is_real and call.operator == "Softmax" and all(term.shape[k] == 1 for k in range(axis, last)):
        mover.rounded.add("a Softmax of one element is 1, also where that is not finite")
        return [mover.expand(mover.terms.constant(np.array(1, term.dtype)), term.shape)]
    aligned = align_inputs(mover, terms, axes, term.shape, kinds, (0,))
    normalized = tuple(k for k, kind in enumerate(aligned.kinds) if kind)
    normalized_term = mover.terms.make(call.operator, aligned.inputs, (normalized, more), term.dtype, aligned.sizes)
    return [aligned.result(mover, normalized_term, range(rank), term.shape)]


_ORDER_DEPENDENT = frozenset(("ArgMax", "ArgMin", "Hardmax"))
"""Operators whose results depend on the order of elements along the axis."""
