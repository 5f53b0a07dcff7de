"""Pad, as a Concat of the term with constants, or with slices of the term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.proving.movement_terms import Mover
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.sizes import are_sizes, axis_of
from anydml.proving.terms import Term, vector_of


def pad_rule(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the term of a Pad; None if the padding is unknown."""
    term, amounts = call.term(0), call.get("pads") if call.version < 11 else vector_of(call.term(1))
    fill = call.term(2)
    if term is None or term.shape is None or amounts is None:
        return None
    rank = len(term.shape)
    if call.term(3) is not None:
        named_axes = axes_of(call, 3, rank)
        if named_axes is None or len(amounts) != 2 * len(named_axes):
            return None
        ends_of = [*named_axes, *(axis + rank for axis in named_axes)]
        amounts = [amounts[ends_of.index(k)] if k in ends_of else 0 for k in range(2 * rank)]
    has_valid_fill = fill is None or (fill.shape in ((), (1,)) and fill.dtype == term.dtype)
    if not has_valid_fill or len(amounts) != 2 * rank:
        return None
    if all(isinstance(n, int) and n == 0 for n in amounts):
        return [term]
    if call.version < 11 or term.dtype is None or term.dtype.hasobject:
        return None
    if call.get("mode", b"constant") != b"constant":
        return _padded_by_itself(mover, call, term, amounts)
    if any(isinstance(n, int) and n < 0 for n in amounts):
        term = _cut(mover, term, amounts)
        amounts = [max(0, n) if isinstance(n, int) else n for n in amounts]
    if term is None or not are_sizes(amounts):
        return None
    return [_surrounded(mover, term, amounts, fill)]


def _surrounded(mover: Mover, term: Term, amounts: Sequence[Any], fill: Term | None) -> Term:
    """Return a term, padded at both ends of axes by an element, by default 0."""
    rank = len(term.sizes)
    filling = mover.terms.constant(np.zeros((), term.dtype)) if fill is None else mover.reshape(fill, ())
    for axis in range(rank):
        shape = term.sizes
        ends = [
            mover.expand(filling, (*shape[:axis], amounts[k], *shape[axis + 1 :])) for k in (axis, rank + axis)
        ]  # fmt: skip
        around = [ends[0]] * (amounts[axis] != 0), [term], [ends[1]] * (amounts[rank + axis] != 0)
        term = mover.concat([side for part in around for side in part], axis)
    return term


def axes_of(call: OperatorCall, k: int, rank: int) -> list[int] | None:
    """Return the axes in an attribute or input k, in order; None if they are left out, unknown, or named twice."""
    axes = [axis_of(axis, rank) for axis in call.axes(k) or ()]
    known_axes = [axis for axis in axes if axis is not None]
    return known_axes if len({*known_axes}) == len(axes) > 0 else None


def center_rule(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the term of a CenterCropPad; None if a size is not known."""
    term, targets = call.term(0), vector_of(call.term(1))
    if term is None or term.shape is None or targets is None or term.dtype is None or term.dtype.hasobject:
        return None
    rank = len(term.shape)
    axes = [*range(rank)] if call.get("axes") is None else axes_of(call, 2, rank)
    if axes is None or len(axes) != len(targets):
        return None
    amounts = [0] * 2 * rank
    for axis, target in zip(axes, targets, strict=True):
        size = term.shape[axis]
        if not isinstance(size, int) or not isinstance(target, int) or target < 0:
            return None
        # The smaller half comes first, whether it is cut or added.
        less, more = abs(target - size) // 2, -(-abs(target - size) // 2)
        amounts[axis], amounts[rank + axis] = (less, more) if target > size else (-less, -more)
    cut = _cut(mover, term, amounts)
    return None if cut is None else [_surrounded(mover, cut, [max(0, n) for n in amounts], None)]


def _cut(mover: Mover, term: Term, amounts: Sequence[Any]) -> Term | None:
    """Return a term that negative amounts cut at both ends of axes; None if sizes are unknown."""
    windows = []
    for axis, size in enumerate(term.sizes):
        ends = amounts[axis], amounts[axis - len(term.sizes)]
        before, after = (max(0, -n) if isinstance(n, int) else 0 for n in ends)
        if before or after:
            if not isinstance(size, int) or before + after > size:
                return None
            windows.append((axis, before, size - before - after, 1))
    return mover.slice(term, windows)


def _padded_by_itself(mover: Mover, call: OperatorCall, term: Term, amounts: Sequence[Any]) -> Sequence[Term] | None:
    """Return a term that is padded by its own elements; None if a size is not known, or is too small for that."""
    mode, rank = call.get("mode").decode(), len(term.sizes)
    for axis, size in enumerate(term.sizes):
        ends = amounts[axis], amounts[rank + axis]
        if ends == (0, 0):
            continue
        longest = {"reflect": -1, "edge": 0, "wrap": 0}.get(mode)
        if longest is None or not isinstance(size, int) or not all(isinstance(n, int) for n in ends) or size < 1:
            return None
        if not all(0 <= n <= size + longest for n in ends):
            return None
        indices = mover.terms.constant(np.pad(np.arange(size), ends, mode))
        term = mover.take(term, indices, axis)
    return [term]
