"""Nodes that may refuse their inputs, because sizes or elements do not fit or the operator is unknown."""

from __future__ import annotations

from collections.abc import Hashable

from anydml.proving.sizes import never_fit, surely_fit
from anydml.proving.terms import Term


def refuses(term: Term) -> bool:
    """Whether a term's node may refuse its inputs: sizes or elements may not fit, or the operator is unknown."""
    input_shapes = [term_input.shape for term_input in term.inputs if term_input is not None]
    if any(shape is None for shape in input_shapes):
        return term.kind != "output"
    shapes = [shape for shape in input_shapes if shape is not None]
    if term.kind == "taken":
        # Constant indices have been checked.
        return not (term.inputs[1] is not None and term.inputs[1].is_constant)
    if term.kind == "MatMul":
        shapes = [shape[:-2] for shape in shapes]
    elif term.kind == "expand":
        return not surely_fit(shapes[0], term.sizes)
    elif not term.kind.endswith("@"):
        return not (term.kind in _NEVER_REFUSING or (term.kind.startswith("Reduce") and "@" not in term.kind))
    if _refuses_elements(term):
        return True
    return not all(surely_fit(a, b) for k, a in enumerate(shapes) for b in shapes[:k])


def _refuses_elements(term: Term) -> bool:
    """Whether an element-wise node may refuse elements: a divisor of integers that may be 0, or a string."""
    if term.kind in ("Div@", "Mod@") and term.dtype is not None and term.dtype.kind in "iu":
        divisor = term.inputs[1]
        return divisor is None or not divisor.is_constant or divisor.array is None or not divisor.array.all()
    first = term.inputs[0] if term.kind == "Cast@" else None
    return first is not None and first.dtype is not None and first.dtype.hasobject


def condition_of(term: Term) -> Hashable:
    """Return what decides whether a convolution or a Gather refuses its inputs; None for other nodes."""
    if term.kind == "taken":
        data, indices = term.inputs
        return None if data is None or indices is None else (term.kind, indices.number, data.sizes[term.detail])
    if not term.kind.startswith("Conv@"):
        return None
    shapes = [None if term_input is None else term_input.shape for term_input in term.inputs[:2]]
    return None if None in shapes else (term.kind, *shapes, term.detail)


def never_fits(term: Term) -> bool:
    """Whether an element-wise node refuses all inputs, because their shapes never broadcast."""
    shapes = [term_input.shape for term_input in term.inputs if term_input is not None and term_input.shape is not None]
    is_broadcast = term.kind.endswith("@")
    return is_broadcast and any(never_fit(a, b) for k, a in enumerate(shapes) for b in shapes[:k])


_NAMES = """
    ArgMax ArgMin Hardmax LayerNormalization LogSoftmax Softmax
    bound concat dot constant input mask moved output range sizes slice sparse stored
"""

_NEVER_REFUSING = frozenset(_NAMES.split())
"""Kinds of terms whose nodes refuse no inputs."""
