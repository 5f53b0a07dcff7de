"""Sums and products in another order: equal for real numbers, but perhaps rounded differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anydml.proving.merging import merge_factor
from anydml.proving.movement_terms import Mover, filled
from anydml.proving.orders import REPEATED_FACTOR, align
from anydml.proving.sizes import Sizes, product
from anydml.proving.terms import Term

MAX_ORDERED_TERMS = 64
"""Maximum number of terms of a sum that are sorted."""

COMPARED_DIGITS = {2: 3, 4: 7, 8: 15}
"""Number of decimal digits of factors that are compared, by the bytes of a float."""

SIGNS = "0 is added, which makes 0 of −0"
"""The note on a proof that leaves out additions of zeros."""

ORDER = "sums are added up in another order"
"""The note on a proof that lets sums be reordered."""

HALVES = "factors of products are halved, or products, which may round very small numbers and infinite ones differently"
"""The note on a proof that lets factors be halved in place of products."""

_CUBE = 3

_HALF = 0.5

Plain = Callable[[str, Sequence[Term]], Term | None]
"""Returns the term of an element-wise operator without attributes."""


def in_order(mover: Mover, operator: str, terms: Sequence[Term], shape: Sizes, plain: Plain) -> Term | None:
    """Return a sum or product with its terms in a normal order; None if it has a single term.

    Args:
        mover: makes terms.
        operator: the operator.
        terms: the inputs of the operator, of floats.
        shape: the shape of its result.
        plain: makes the term of an operator of two inputs.
    """
    match operator:
        case "Pow":
            return _power(mover, terms, shape, plain)
        case "Div":
            by, array = filled(terms[1]), terms[1].array
            if by is None and mover.merges and terms[1].is_constant and array is not None and array.all():
                return merge_factor(mover, terms[0], 1 / array.astype(np.float64)) if terms[0].shape == shape else None
            if by is None or not float(by) or terms[0].shape != shape:
                return None
            return _multiply(mover, terms[:1], shape, 1 / float(by), plain)
        case "Mul":
            return _multiply(mover, terms, shape, 1.0, plain)
        case "Add":
            return _add(mover, terms, shape, plain)
    return None


def split_scale(mover: Mover, term: Term) -> tuple[float, Term | None]:
    """Split a value into a constant factor and the unscaled value, which is None for a constant."""
    if (number := filled(term)) is not None:
        return float(number), None
    source, order = mover.source(term)
    if source.kind == "Mul@":
        for k, factor in enumerate(source.inputs):
            unscaled = source.inputs[1 - k]
            number = None if factor is None else filled(factor)
            if number is not None and unscaled is not None and unscaled.shape == source.shape:
                return float(number), mover.view(unscaled, order.factors, order.entries(), term.sizes)
    return 1.0, term


def half_product(mover: Mover, terms: Sequence[Term], plain: Plain) -> Term | None:
    """Return half the product of two values, of which one is half of another value; None if none is."""
    number, wholes = 1.0, list[Term]()
    for term in terms:
        factor, whole = split_scale(mover, term)
        if whole is None:
            return None
        is_half = factor == _HALF
        number *= factor if is_half else 1
        wholes.append(whole if is_half else term)
    total = None if number == 1 else plain("Mul", wholes)
    if total is None:
        return None
    mover.rounded.add(HALVES)
    return plain("Mul", [mover.terms.constant(np.array(number, terms[0].dtype)), total])


def times(mover: Mover, term: Term, number: float, plain: Plain) -> Term | None:
    """Return a value times a number rounded to the digits that are compared; None if there is no value to multiply."""
    assert term.dtype is not None, "it is of floats"
    if mover.merges and number != 1 and (merged := merge_factor(mover, term, np.array(number))) is not None:
        return merged
    factor = float(f"{number:.{COMPARED_DIGITS[term.dtype.itemsize] - 1}e}")
    info = np.finfo(term.dtype)
    if factor == 1:
        return term
    if not float(info.tiny) <= abs(factor) <= float(info.max):
        return None
    mover.rounded.add("numbers that values are multiplied by are merged, and compared in as many digits as floats have")
    return plain("Mul", [mover.terms.constant(np.array(factor, term.dtype)), term])


def _multiply(mover: Mover, terms: Sequence[Term], shape: Sizes, number: float, plain: Plain) -> Term | None:
    factors = list[Term]()
    for term in terms:
        source, without_number = split_scale(mover, term)
        number *= source
        factors += [] if without_number is None else [without_number]
    if not factors:
        return None
    product = _by_constant(mover, factors, shape)
    if product is None:
        product = plain("Mul", factors) if len(factors) > 1 else factors[0]
    return times(mover, product, number, plain) if product is not None and product.shape == shape else None


def _by_constant(mover: Mover, terms: Sequence[Term], shape: Sizes) -> Term | None:
    """Return the product of a value and a constant, merged into weights; None if the terms are not such a pair."""
    constants = [term for term in terms if term.is_constant]
    values = [term for term in terms if not term.is_constant]
    if not mover.merges or len(constants) != 1 or len(values) != 1 or values[0].shape != shape:
        return None
    array = constants[0].array
    return None if array is None else merge_factor(mover, values[0], array)


def _power(mover: Mover, terms: Sequence[Term], shape: Sizes, plain: Plain) -> Term | None:
    base, exponent = terms[0], filled(terms[1])
    if exponent is None or float(exponent) not in (2, _CUBE) or base.shape != shape:
        return None
    mover.rounded.add("small powers are products")
    power = _multiply(mover, [base, base], shape, 1.0, plain)
    if power is not None and float(exponent) == _CUBE:
        power = _multiply(mover, [base, power], shape, 1.0, plain)
    return power


def _add(mover: Mover, terms: Sequence[Term], shape: Sizes, plain: Plain) -> Term | None:
    parts = [summand for term in terms for summand in _summands(mover, term)]
    if not len(terms) < len(parts) <= MAX_ORDERED_TERMS:
        return None
    if mover.merges:
        parts = _with_one_constant(mover, parts)
    parts.sort(key=lambda term: term.number)
    total: Term | None = parts[0]
    for part in parts[1:]:
        total = None if total is None else plain("Add", [total, part])
    if total is None or total.shape != shape:
        return None
    mover.rounded.add(ORDER)
    return total


def _with_one_constant(mover: Mover, parts: Sequence[Term]) -> list[Term]:
    """Return the summands of terms, with all constants added up to one."""
    arrays = [part.array.astype(np.float64) for part in parts if part.is_constant and part.array is not None]
    if len(arrays) < 2 or any(part.is_constant and part.array is None for part in parts):
        return [*parts]
    total = mover.terms.constant(np.asarray(sum(arrays[1:], arrays[0])), dtype=parts[0].dtype)
    return [*(part for part in parts if not part.is_constant), total]


def _summands(mover: Mover, term: Term) -> list[Term]:
    """Return the summands of a sum, each in the shape of the sum; any other value is its own summand."""
    source, order = mover.source(term)
    if source.kind != "Add@":
        return [term]
    summands = list[Term]()
    for source_input in source.inputs:
        assert source_input is not None, "it is added"
        if mover.merges and source_input.is_constant and source is term:
            # Leave out broadcasting, so that the constant can be added to others.
            summands.append(source_input)
            continue
        if mover.merges and source_input.is_constant and (thin := _thin_view(mover, source_input, term)) is not None:
            summands.append(thin)
            continue
        wide = mover.expand(source_input, source.sizes)
        if wide.kind == "expand":
            return [term]
        summands += _summands(mover, mover.view(wide, order.factors, order.entries(), term.sizes))
    return summands


def _thin_view(mover: Mover, constant: Term, view: Term) -> Term | None:
    """Return a constant that is broadcast to the source of a view, as it is broadcast to the view; None if unknown."""
    source, factors, axes = mover.along(view)
    split = align(factors, source.sizes)
    if split is None or any(len(parts) > 1 for parts in split[0]):
        return None
    sizes = (*(1,) * (len(source.sizes) - len(constant.sizes)), *constant.sizes)
    own_factors = [*factors]
    for size, group in zip(sizes, split[1], strict=True):
        for k, _ in group:
            own_factors[k] = 1 if size == 1 else factors[k]
    own_axes = [[(k, own_factors[k]) for k, _ in entries if k != REPEATED_FACTOR] for entries in axes]
    shape = tuple(product(size for _, size in entries) for entries in own_axes)
    return mover.view(constant, own_factors, [entry for entries in own_axes for entry in entries], shape)
