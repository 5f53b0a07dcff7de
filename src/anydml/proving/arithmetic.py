"""Rules of nodes that compute: when a node equals another for all sizes, bit for bit except for the order of sums."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.onnx.tensor_protos import numpy_type
from anydml.proving.aligned_inputs import PLAIN_AXIS, align_inputs, shared_axes
from anydml.proving.elementwise import ELEMENTWISE_OPERATORS, QUANTIZING_OPERATORS
from anydml.proving.movement_terms import Mover, filled
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.reassociation import SIGNS, half_product, in_order, split_scale, times
from anydml.proving.rows import AXIS_OPERATORS, along_axis, reduction
from anydml.proving.shapes import compute
from anydml.proving.sizes import Size, Sizes, broadcast, may_fit
from anydml.proving.terms import Term

COMMUTATIVE_OPERATORS = frozenset(("Add", "And", "Equal", "Mul", "Or", "Xor"))
"""Operators of two inputs whose order does not matter, bit for bit."""

_BOOLEAN = frozenset(("Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"))

_OF_ONE_DTYPE = COMMUTATIVE_OPERATORS | {"Div", "Max", "Min", "Sub"}
"""Operators whose inputs are of one dtype."""

_HALVED_DTYPES = (np.float32, np.float64)
"""Types of floats whose halves are exact, except for those of very small numbers."""

_NEUTRAL_NUMBERS = {"Add": -0.0, "Div": 1.0, "Mul": 1.0, "Sub": 0.0}
"""Second inputs that leave floats unchanged; 0 is not neutral in sums, because 0 + −0 is 0."""

_NEUTRAL_BOOLEANS = {"And": True, "Equal": True, "Or": False, "Xor": False}
"""Truth values that leave truth values unchanged."""


def arithmetic(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the terms of a node that computes; None if no rule applies to it."""
    if call.domain:
        return None
    if call.operator in ELEMENTWISE_OPERATORS and len(call.proto.output) == 1 and call.inputs:
        return _elementwise(mover, call)
    if call.operator in QUANTIZING_OPERATORS:
        return _quantize(mover, call)
    if call.operator == "MatMul":
        return _matmul(mover, *call.inputs) if len(call.inputs) == 2 and all(call.inputs) else None
    if call.operator == "Gemm":
        return _gemm(mover, call)
    if call.operator.startswith("Reduce"):
        return reduction(mover, call)
    if call.operator in AXIS_OPERATORS and call.version >= AXIS_OPERATORS[call.operator]:
        return along_axis(mover, call)
    return None


def elementwise_term(mover: Mover, operator: str, terms: Sequence[Term | None], detail: Any, dtype: Any) -> Term | None:
    """Return the term of an element-wise operator; None if a shape is not known."""
    shaped = [term for term in terms if term is not None and term.shape is not None and term.dtype == dtype]
    if mover.is_real and dtype is not None and dtype.kind == "f" and not detail and len(shaped) == len(terms) > 1:
        ordered = in_order(mover, operator, shaped, _broadcast(terms), partial(_plain, mover, dtype))
        if ordered is not None:
            return ordered
    if operator == "Mul" and not mover.has_signs and len(shaped) == len(terms) and dtype in _HALVED_DTYPES:
        halved = half_product(mover, shaped, partial(_plain, mover, dtype))
        if halved is not None:
            return halved
    return _elementwise_term(mover, operator, terms, detail, dtype)


def _plain(mover: Mover, dtype: Any, operator: str, terms: Sequence[Term]) -> Term | None:
    return _elementwise_term(mover, operator, terms, (), dtype)


def _elementwise_term(
    mover: Mover, operator: str, terms: Sequence[Term | None], detail: Any, dtype: Any
) -> Term | None:
    if any(term is not None and term.shape is None for term in terms):
        return None
    if operator in _OF_ONE_DTYPE and len({term.dtype for term in terms if term is not None}) > 1:
        return None
    if not all(may_fit(_broadcast(terms[:k]), term.sizes) for k, term in enumerate(terms) if term is not None):
        return None
    shape = _broadcast(terms)
    simpler = _simpler(mover, operator, terms, shape)
    if simpler is not None:
        return simpler
    present = [_thin(mover, term) for term in terms if term is not None]
    axes = shared_axes(present, shape)
    is_commutative = operator in COMMUTATIVE_OPERATORS
    if axes is None:
        # Sizes may differ if one of them is 1.
        arguments = sorted(terms, key=_number) if is_commutative else terms
        return mover.terms.make(f"{operator}@", arguments, (detail, shape), dtype, shape)
    aligned = align_inputs(mover, present, axes, shape, [PLAIN_AXIS] * len(shape), is_ordered=not is_commutative)
    remaining = iter(sorted(aligned.inputs, key=_number) if is_commutative else aligned.inputs)
    arguments = [None if term is None else next(remaining) for term in terms]
    computed = mover.terms.make(f"{operator}@", arguments, (detail, (*aligned.sizes,)), dtype, aligned.sizes)
    return aligned.result(mover, computed, range(len(shape)), shape)


def _number(term: Term | None) -> int:
    return -1 if term is None else term.number


def _thin(mover: Mover, term: Term) -> Term:
    """Return a constant without the elements that broadcasting would repeat."""
    array = term.array
    if not term.is_constant or array is None or not array.size or array.dtype.hasobject:
        return term
    thin = array
    for axis, size in enumerate(array.shape):
        first = thin.take([0], axis)
        if size > 1 and thin.take([1], axis).tobytes() == first.tobytes():
            is_repeated = np.ascontiguousarray(np.broadcast_to(first, thin.shape)).tobytes() == thin.tobytes()
            thin = first if is_repeated else thin
    return term if thin.shape == array.shape else mover.terms.moved(thin, [term])


def _broadcast(terms: Sequence[Term | None]) -> Sizes:
    sizes: Sizes = ()
    for term in terms:
        sizes = sizes if term is None else broadcast(sizes, term.sizes)
    return sizes


def _simpler(mover: Mover, operator: str, terms: Sequence[Term | None], shape: Sizes) -> Term | None:
    """Return the input that an operator returns unchanged; None if there is none."""
    first = terms[0]
    if operator in ("Max", "Mean", "Min", "Sum") and len(terms) == 1:
        return first
    if operator == "Where" and first is not None and (choice := _element(mover, first)) is not None:
        chosen = terms[1 if choice else 2]
        return chosen if chosen is not None and chosen.shape == shape else None
    if operator in ("Neg", "Not") and first is not None:
        source, order = mover.source(first)
        if source.kind == f"{operator}@" and source.inputs[0] is not None:
            return mover.view(source.inputs[0], order.factors, order.entries(), first.sizes)
    if operator not in _NEUTRAL_NUMBERS.keys() | _NEUTRAL_BOOLEANS.keys() or len(terms) != 2:
        return None
    for k in (1, 0) if operator in COMMUTATIVE_OPERATORS else (1,):
        number, operand = terms[k], terms[1 - k]
        element = None if number is None else _element(mover, number)
        if element is None or operand is None or operand.shape != shape:
            continue
        if element.dtype == np.bool_:
            if (
                operand.dtype == np.bool_
                and operator in _NEUTRAL_BOOLEANS
                and bool(element) is _NEUTRAL_BOOLEANS[operator]
            ):
                return operand
            continue
        if operator not in _NEUTRAL_NUMBERS:
            continue
        neutral = np.asarray(0 if operator == "Add" and element.dtype.kind in "iu" else _NEUTRAL_NUMBERS[operator])
        if element.dtype.kind in "fiu" and element.tobytes() == neutral.astype(element.dtype).tobytes():
            return operand
        if not mover.has_signs and operator == "Add" and element == 0:
            mover.rounded.add(SIGNS)
            return operand
    return None


def _element(mover: Mover, term: Term) -> Array | None:
    """Return the element that fills a constant, which may be repeated any number of times; None for other terms."""
    return filled(term if term.shape is None else mover.source(term)[0])


def _elementwise(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    terms, operator = call.inputs, call.operator
    first = terms[1] if operator == "Where" and len(terms) > 1 else terms[0]
    dtype = None if first is None else first.dtype
    if operator == "Cast":
        dtype = numpy_type(call.get("to"))
    elif operator in _BOOLEAN:
        dtype = np.dtype(np.bool_)
    constants = compute(mover.terms, operator, terms, dtype)
    if constants is not None:
        return [constants]
    if all(term is None or term.is_constant for term in terms) or (call.version < 7 and len(terms) > 1):
        # Before opset 7, axes were broadcast differently.
        return None
    if operator == "Reciprocal" and first is not None and dtype is not None and dtype.kind == "f":
        # Both are rounded once.
        operator, terms = "Div", [mover.terms.constant(np.ones((), dtype)), first]
    elementwise = elementwise_term(mover, operator, terms, call.attributes(), dtype)
    return None if elementwise is None else [elementwise]


def _quantize(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the terms of a node that quantizes or dequantizes by one scale; None for several, or unknown types."""
    scale_terms = [term for term in call.inputs[1:] if term is not None]
    is_whole = all(constant.shape == () for constant in scale_terms)
    if (
        not is_whole
        or call.get("output_dtype", 0)
        or call.get("block_size", 0)
        or all(input_ is None or input_.is_constant for input_ in call.inputs)
    ):
        return None
    zero = call.term(2)
    zero_dtype = np.dtype(np.uint8) if zero is None else zero.dtype
    dtype = zero_dtype if call.operator == "QuantizeLinear" else scale_terms[0].dtype
    quantized = elementwise_term(mover, call.operator, call.inputs, call.attributes(("axis",)), dtype)
    return None if quantized is None else [quantized]


def _matmul(mover: Mover, first: Term | None, second: Term | None) -> Sequence[Term] | None:
    product = _dot(mover, first, second)
    return None if product is None or (first and second and first.is_constant and second.is_constant) else [product]


def _dot(mover: Mover, first: Term | None, second: Term | None) -> Term | None:
    """Return the product of matrices or of batches of matrices; None if a shape is unknown, or one is a row."""
    if first is None or second is None or first.shape is None or second.shape is None:
        return None
    if len(first.shape) < 2 or len(second.shape) < 2:
        return None
    if (
        first.shape[-1] != second.shape[-2]
        or not may_fit(first.shape[:-2], second.shape[:-2])
        or first.dtype != second.dtype
    ):
        return None
    batch = broadcast(first.shape[:-2], second.shape[:-2])
    if mover.is_real and first.dtype is not None and first.dtype.kind == "f":
        (factor, first_rest), (second_factor, second_rest) = split_scale(mover, first), split_scale(mover, second)
        if first_rest is not None and second_rest is not None and factor * second_factor not in (0.0, 1.0):
            product = _dot(mover, first_rest, second_rest)
            return (
                None
                if product is None
                else times(mover, product, factor * second_factor, partial(_plain, mover, first.dtype))
            )
    rank = len(batch)
    shape = (*batch, first.shape[-2], second.shape[-1])
    axes = [
        [-1 if size == 1 else rank - len(operand.sizes) + 2 + axis for axis, size in enumerate(operand.sizes[:-2])]
        + [-1 if operand.sizes[axis] == 1 else k for axis, k in zip((-2, -1), places, strict=True)]
        for operand, places in ((first, (rank, rank + 2)), (second, (rank + 2, rank + 1)))
    ]
    sizes = (*shape, first.shape[-1])
    if any(
        axis >= 0 and sizes[axis] != size
        for places, operand in zip(axes, (first, second), strict=True)
        for axis, size in zip(places, operand.sizes, strict=True)
    ):  # fmt: skip
        return mover.terms.make("MatMul", [first, second], None, first.dtype, shape)
    kinds = [*[PLAIN_AXIS] * (rank + 2), "added"]
    return _add(mover, [first, second], axes, sizes, kinds)


def _add(
    mover: Mover, terms: Sequence[Term], axes: Sequence[Sequence[int]], sizes: Sequence[Size], kinds: Sequence[Hashable]
) -> Term:
    """Return the sums of products along all axes that are not plain."""
    aligned = align_inputs(mover, terms, axes, sizes, kinds, (0, 1), is_ordered=False)
    added = tuple(axis for axis, axis_kind in enumerate(aligned.kinds) if axis_kind != PLAIN_AXIS)
    remaining_sizes = [
        size for size, axis_kind in zip(aligned.sizes, aligned.kinds, strict=True) if axis_kind == PLAIN_AXIS
    ]
    term = mover.terms.make("dot", sorted(aligned.inputs, key=_number), added, terms[0].dtype, remaining_sizes)
    plain = [axis for axis, axis_kind in enumerate(kinds) if axis_kind == PLAIN_AXIS]
    return aligned.result(mover, term, plain, tuple(sizes[axis] for axis in plain))


def computed_again(mover: Mover, term: Term, inputs: Sequence[Term | None], places: Sequence[int]) -> Term | None:
    """Return the result of an element-wise node, a product or a Concat for other inputs; None for other nodes.

    Args:
        mover: makes terms.
        term: the node's result.
        inputs: the other inputs; they are broadcast to each other, or joined.
        places: for each axis of the node's inputs, its number among the axes of `inputs`.
    """
    inputs_present = [term for term in inputs if term is not None]
    if term.kind == "concat":
        return mover.concat(inputs_present, places[term.detail])
    if any(term.shape is None for term in inputs_present):
        return None
    if term.kind.endswith("@"):
        if (
            shared_axes(inputs_present, _broadcast(inputs_present)) is None
            or len({len(term.sizes) for term in inputs_present}) > 1
        ):
            return None
        return elementwise_term(mover, term.kind[:-1], inputs, term.detail[0], term.dtype)
    if term.kind != "dot":
        return None
    sizes = _broadcast(inputs_present)
    axes = shared_axes(inputs_present, sizes)
    kinds = [PLAIN_AXIS] * len(sizes)
    for axis in term.detail:
        kinds[places[axis]] = "added"
    return None if axes is None else _add(mover, inputs_present, axes, sizes, kinds)


def _gemm(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
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
    product = _dot(mover, first, second)
    if product is None or bias is None:
        return None if product is None else [product]
    added = elementwise_term(mover, "Add", [product, bias], (), product.dtype)
    return [added] if added is not None and added.shape == product.shape else None
