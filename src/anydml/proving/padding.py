"""Padding: what surrounds a term is joined to it, or taken of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.proving.movement_terms import Mover
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.sizes import are_sizes
from anydml.proving.terms import Term, vector_of


def pad_rule(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the term of a Pad; None if the padding is unknown."""
    term, amounts = call.term(0), call.get("pads") if call.version < 11 else vector_of(call.term(1))
    fill = call.term(2)
    if term is None or term.shape is None or amounts is None or call.term(3) is not None:
        return None
    rank = len(term.shape)
    is_right = fill is None or (fill.shape in ((), (1,)) and fill.dtype == term.dtype)
    if not is_right or len(amounts) != 2 * rank:
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
    filling = mover.terms.constant(np.zeros((), term.dtype)) if fill is None else mover.reshape(fill, ())
    for axis in range(rank):
        shape = term.sizes
        ends = [
            mover.expand(filling, (*shape[:axis], amounts[k], *shape[axis + 1 :])) for k in (axis, rank + axis)
        ]  # fmt: skip
        around = [ends[0]] * (amounts[axis] != 0), [term], [ends[1]] * (amounts[rank + axis] != 0)
        term = mover.concat([side for part in around for side in part], axis)
    return [term]


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
