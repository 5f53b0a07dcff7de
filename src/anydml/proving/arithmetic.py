"""Rules of nodes that compute, where a node equals another for all sizes and bit for bit, but for the order of sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.onnx.tensors import numpy_type
from anydml.proving.calls import Call
from anydml.proving.moving import Mover, filled
from anydml.proving.shapes import computed
from anydml.proving.sizes import Sizes, axis_of, broadcast, fit, surely_fit
from anydml.proving.terms import Term
from anydml.slim.operators import ELEMENTWISE

COMMUTATIVE = frozenset(("Add", "And", "Equal", "Mul", "Or", "Xor"))
"""Operators of two inputs whose order does not matter, bit for bit."""

_BOOLEAN = frozenset(("Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"))

_ALIKE = COMMUTATIVE | {"Div", "Max", "Min", "Sub"}
"""Operators whose inputs are of one dtype."""

_NEUTRAL = {"Add": -0.0, "Div": 1.0, "Mul": 1.0, "Sub": 0.0}
"""Numbers that leave a number of floats as it is, as the second input; 0 + −0 is 0, so 0 is not neutral in sums."""

_ALONG_AXIS = {
    "Softmax": 13,
    "LogSoftmax": 13,
    "Hardmax": 13,
    "ArgMax": 1,
    "ArgMin": 1,
    "LayerNormalization": 17,
}
"""Operators with an axis that may be counted from the end, and their first versions in which it is one axis."""


def arithmetic(mover: Mover, call: Call) -> Sequence[Term] | None:
    """Return the terms of a node that computes; None where nothing more is known of it."""
    if call.domain:
        return None
    if call.operator in ELEMENTWISE and len(call.proto.output) == 1 and call.inputs:
        return _elementwise(mover, call)
    if call.operator == "MatMul":
        return _matmul(mover, *call.inputs) if len(call.inputs) == 2 and all(call.inputs) else None
    if call.operator == "Gemm":
        return _gemm(mover, call)
    if call.operator.startswith("Reduce"):
        return _reduce(mover, call)
    if call.operator in _ALONG_AXIS and call.version >= _ALONG_AXIS[call.operator]:
        return _along_axis(mover, call)
    return None


def made(mover: Mover, operator: str, terms: Sequence[Term | None], detail: Any, dtype: Any) -> Term | None:
    """Return the term of an element-wise operator; None if a shape is not known."""
    if any(term is not None and term.shape is None for term in terms):
        return None
    if operator in _ALIKE and len({term.dtype for term in terms if term is not None}) > 1:
        return None
    if not all(fit(_broadcast(terms[:k]), term.sizes) for k, term in enumerate(terms) if term is not None):
        return None
    shape = _broadcast(terms)
    simpler = _simpler(mover, operator, terms, shape)
    if simpler is not None:
        return simpler
    given = list[Term | None](terms)
    if operator in COMMUTATIVE:
        given.sort(key=_number)
    # One after the other: each must be broadcast by those that are left.
    for k in range(len(given)):
        given[k] = _small(mover, given, k, shape)
    if operator in COMMUTATIVE:
        given.sort(key=_number)
    return mover.terms.make(f"{operator}@", given, (detail, shape), dtype, shape)


def _number(term: Term | None) -> int:
    return -1 if term is None else term.number


def _small(mover: Mover, terms: Sequence[Term | None], k: int, shape: Sizes) -> Term | None:
    """Return an operand that is broadcast to the same, without axes or elements that broadcasting makes anyway."""
    term, others = terms[k], _broadcast([*terms[:k], *terms[k + 1 :]])
    if term is None:
        return None
    if term.kind == "expand" and (source := term.inputs[0]) is not None and broadcast(others, source.sizes) == shape:
        term = source
    element = filled(term)
    if element is not None and term.shape and others == shape:
        return mover.terms.constant(element)
    sizes = term.sizes
    while sizes and sizes[0] == 1 and broadcast(others, sizes[1:]) == shape:
        sizes = sizes[1:]
    return mover.reshape(term, sizes)


def _broadcast(terms: Sequence[Term | None]) -> Sizes:
    found: Sizes = ()
    for term in terms:
        found = found if term is None else broadcast(found, term.sizes)
    return found


def _simpler(mover: Mover, operator: str, terms: Sequence[Term | None], shape: Sizes) -> Term | None:
    """Return the input that an operator leaves as it is, if there is one."""
    first = terms[0]
    if operator in ("Max", "Mean", "Min", "Sum") and len(terms) == 1:
        return first
    if operator == "Where" and first is not None and (choice := filled(first)) is not None:
        chosen = terms[1 if choice else 2]
        return chosen if chosen is not None and chosen.shape == shape else None
    if operator == "Neg" and first is not None and first.kind.startswith("Neg@"):
        return first.inputs[0]
    if operator == "Not" and first is not None and first.kind.startswith("Not@"):
        return first.inputs[0]
    if operator not in _NEUTRAL or len(terms) != 2:
        return None
    for k in (1, 0) if operator in COMMUTATIVE else (1,):
        number, rest = terms[k], terms[1 - k]
        element = None if number is None else filled(number)
        if element is None or rest is None or rest.shape != shape:
            continue
        wanted = np.asarray(0 if operator == "Add" and element.dtype.kind in "iu" else _NEUTRAL[operator])
        if element.dtype.kind in "fiu" and element.tobytes() == wanted.astype(element.dtype).tobytes():
            return rest
        if mover.is_real and operator == "Add" and element == 0:
            mover.rounded.add("0 is added, which makes 0 of −0")
            return rest
    return None


def _elementwise(mover: Mover, call: Call) -> Sequence[Term] | None:
    terms, operator = call.inputs, call.operator
    first = terms[1] if operator == "Where" and len(terms) > 1 else terms[0]
    dtype = None if first is None else first.dtype
    if operator == "Cast":
        dtype = numpy_type(call.get("to"))
    elif operator in _BOOLEAN:
        dtype = np.dtype(np.bool_)
    known = computed(mover.terms, operator, terms, dtype)
    if known is not None:
        return [known]
    if all(term is not None and term.is_constant for term in terms) or (call.version < 7 and len(terms) > 1):
        # Before opset 7, axes were broadcast in another way.
        return None
    found = made(mover, operator, terms, call.attributes(), dtype)
    return None if found is None else [found]


def _matmul(mover: Mover, first: Term | None, second: Term | None) -> Sequence[Term] | None:
    found = _dot(mover, first, second)
    return None if found is None or (first and second and first.is_constant and second.is_constant) else [found]


def _dot(mover: Mover, first: Term | None, second: Term | None) -> Term | None:
    """Return the product of matrices, or batches of them; None if their shapes are not known, or one is a row."""
    if first is None or second is None or first.shape is None or second.shape is None:
        return None
    if len(first.shape) < 2 or len(second.shape) < 2:
        return None
    if (
        first.shape[-1] != second.shape[-2]
        or not fit(first.shape[:-2], second.shape[:-2])
        or first.dtype != second.dtype
    ):
        return None
    batch = broadcast(first.shape[:-2], second.shape[:-2])
    shape = (*batch, first.shape[-2], second.shape[-1])
    return mover.terms.make("MatMul", [first, second], None, first.dtype, shape)


def _gemm(mover: Mover, call: Call) -> Sequence[Term] | None:
    first, second, bias = (call.term(k) for k in range(3))
    is_plain = call.get("alpha", 1.0) == call.get("beta", 1.0) == 1.0
    if first is None or second is None or first.shape is None or second.shape is None or not is_plain:
        return None
    if len(first.shape) != 2 or len(second.shape) != 2 or call.version < 7:
        return None
    if all(term.is_constant for term in call.inputs if term is not None):
        return None
    if call.get("transA", 0):
        first = mover.transpose(first, (1, 0))
    if call.get("transB", 0):
        second = mover.transpose(second, (1, 0))
    found = _dot(mover, first, second)
    if found is None or bias is None:
        return None if found is None else [found]
    added = made(mover, "Add", [found, bias], (), found.dtype)
    return [added] if added is not None and added.shape == found.shape else None


def _reduce(mover: Mover, call: Call) -> Sequence[Term] | None:
    """Return a reduction that keeps its axes, and a Reshape without these."""
    term = call.term(0)
    if term is None or term.shape is None or term.is_constant:
        return None
    rank = len(term.shape)
    if not rank:
        return None
    given = call.axes(1)
    if given is None and call.term(1) is not None:
        return None
    if given is None or not given:
        if call.get("noop_with_empty_axes", 0):
            return None
        given = [*range(rank)]
    named = [axis_of(axis, rank) for axis in given]
    axes = sorted({axis for axis in named if axis is not None})
    if len(axes) < len(named):
        return None
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(term.shape))
    more = call.attributes(("axes", "keepdims", "noop_with_empty_axes"))
    found = mover.terms.make(call.operator, [term], (tuple(axes), more), term.dtype, shape)
    if not call.get("keepdims", 1):
        found = mover.reshape(found, tuple(size for axis, size in enumerate(shape) if axis not in axes))
    return [found]


def _along_axis(mover: Mover, call: Call) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or not term.shape or term.is_constant or len([*filter(None, call.proto.output)]) != 1:
        return None
    axis = axis_of(call.get("axis", -1), len(term.shape))
    if axis is None:
        return None
    detail = axis, call.attributes(("axis",))
    if call.operator.startswith("Arg"):
        kept = [1 if k == axis else size for k, size in enumerate(term.shape)]
        shape = [size for k, size in enumerate(kept) if k != axis or call.get("keepdims", 1)]
        return [mover.terms.make(call.operator, call.inputs, detail, np.dtype(np.int64), shape)]
    shapes = [None if each is None else each.shape for each in call.inputs[1:]]
    if any(shape is None or len(shape) > len(term.shape) or not surely_fit(shape, term.shape) for shape in shapes):
        return None
    return [mover.terms.make(call.operator, call.inputs, detail, term.dtype, term.shape)]


def refuses(term: Term) -> bool:
    """Whether a term's node may refuse what it is given: where sizes do not fit, or nothing is known of it."""
    given = [each.shape for each in term.inputs if each is not None]
    if any(shape is None for shape in given):
        return term.kind != "output"
    shapes = [shape for shape in given if shape is not None]
    if term.kind == "taken":
        # Constant indices were found to be inside.
        return not (term.inputs[1] is not None and term.inputs[1].is_constant)
    if term.kind == "MatMul":
        shapes = [shape[:-2] for shape in shapes]
    elif term.kind == "expand":
        return not surely_fit(shapes[0], term.sizes)
    elif not term.kind.endswith("@"):
        return not (term.kind in _TAKING or (term.kind.startswith("Reduce") and "@" not in term.kind))
    return not all(surely_fit(a, b) for k, a in enumerate(shapes) for b in shapes[:k])


_NAMES = """
    ArgMax ArgMin Hardmax LayerNormalization LogSoftmax Softmax
    bound concat constant input moved output range sizes slice sparse tile
"""

_TAKING = frozenset(_NAMES.split())
"""Kinds of terms that refuse nothing."""
