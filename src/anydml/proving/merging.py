"""Factors of results, merged into the weights that the results are computed with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.proving.movement_terms import Mover
from anydml.proving.orders import REPEATED_FACTOR, Entry, align, as_integers
from anydml.proving.sizes import Size
from anydml.proving.terms import Term

FACTORS_MERGED = "numbers that results are multiplied by are merged into weights, which a runtime rounds"


def merge_factor(mover: Mover, term: Term, by: Array) -> Term | None:
    """Return the product of a value and a constant, merged into the weights that the value is computed with.

    Args:
        mover: makes terms.
        term: the value, of floats.
        by: the constant, whose sizes are 1 or those of the value.

    Returns:
        The product; None if the value is neither weights nor computed with weights.
    """
    if term.is_constant:
        return _constant(mover, term, by)
    wide = by.reshape((1,) * (len(term.sizes) - by.ndim) + by.shape)
    source, factors, axes = mover.along(term)
    if source is not term:
        at_source = _at_source(source, factors, axes, wide)
        product = None if at_source is None else merge_factor(mover, source, at_source)
        if product is None or product.shape != source.shape:
            return None
        return mover.view(product, factors, [entry for entries in axes for entry in entries], term.sizes)
    if term.kind == "Add@":
        return _sum(mover, term, wide)
    if term.kind in ("dot", "Mul@"):
        return _product(mover, term, wide)
    return _convolution(mover, term, wide) if term.kind.startswith("Conv@") else None


def _constant(mover: Mover, term: Term, by: Array) -> Term | None:
    """Return the unrounded product of constants; None if it is too large."""
    assert term.array is not None, "it is a constant"
    assert term.dtype is not None, "it is a constant"
    with np.errstate(over="ignore", invalid="ignore"):
        product = term.array.astype(np.float64) * by
    if not (np.abs(product) <= float(np.finfo(term.dtype).max)).all():
        return None
    mover.rounded.add(FACTORS_MERGED)
    rounded = product.astype(term.dtype)
    # An exact product, as by a power of two, is an ordinary constant.
    return mover.terms.constant(rounded if (rounded == product).all() else product, dtype=term.dtype)


def _at_source(source: Term, factors: Sequence[Size], axes: Sequence[Sequence[Entry]], by: Array) -> Array | None:
    """Convert a constant for a view's axes to a constant for the axes of the view's source; None if impossible."""
    sizes = dict[int, int]()
    split: list[int] = []
    places: list[int] = []
    for entries, count in zip(axes, by.shape, strict=True):
        for k, size in entries:
            if k == REPEATED_FACTOR and size != 1 and count != 1:
                return None
            if count != 1 and not isinstance(size, int):
                return None
            if k != REPEATED_FACTOR:
                places.append(k)
                sizes[k] = size if count != 1 and isinstance(size, int) else 1
                split.append(sizes[k])
    if math.prod(split) != by.size or len(sizes) != len(places):
        return None
    by_factor = by.reshape(split).transpose(np.argsort(places))
    order = sorted(sizes)
    groups = align(factors, source.sizes)
    if groups is None:
        return None
    shape = list[int]()
    factor_shape = [*by_factor.shape]
    split_factors = {k for k, parts in enumerate(groups[0]) if len(parts) > 1}
    if any(k in split_factors and factor_shape[order.index(k)] != 1 for k in sizes):
        return None
    for group in groups[1]:
        dims = [order.index(k) for k, _ in group if k in sizes]
        if all(factor_shape[dim] == 1 for dim in dims):
            shape.append(1)
            continue
        group_sizes = as_integers([factors[k] for k, _ in group])
        if group_sizes is None or not split_factors.isdisjoint(k for k, _ in group):
            return None
        for dim, size in zip(dims, (factors[k] for k, _ in group if k in sizes), strict=True):
            factor_shape[dim] = size if isinstance(size, int) else 1
        shape.append(math.prod(group_sizes))
    return np.broadcast_to(by_factor, factor_shape).reshape(shape)


def _sum(mover: Mover, term: Term, by: Array) -> Term | None:
    parts = list[Term]()
    for part in term.inputs:
        if part is None or len(part.sizes) != by.ndim:
            return None
        product = merge_factor(mover, part, by) if part.is_constant or _fits(by, part) else None
        if product is None:
            return None
        parts.append(product)
    return _with_inputs(mover, term, parts)


def _fits(by: Array, term: Term) -> bool:
    return all(count in (1, size) for count, size in zip(by.shape, term.sizes, strict=True))


def _with_inputs(mover: Mover, term: Term, inputs: Sequence[Term]) -> Term | None:
    """Return the result of a term's node for other inputs of the same shapes."""
    assert mover.again is not None, "it is there"
    result = mover.again(mover, term, inputs, range(len(inputs[0].sizes)))
    return result if result is not None and result.shape == term.shape else None


def _product(mover: Mover, term: Term, by: Array) -> Term | None:
    """Return products, or sums of these, with multiplied weights: a constant factor, or the first that has weights."""
    remaining, added = iter(by.shape), term.detail if term.kind == "dot" else ()
    by = by.reshape([1 if axis in added else next(remaining) for axis in range(by.ndim + len(added))])
    factors = [factor for factor in term.inputs if factor is not None]
    for k in sorted(range(len(factors)), key=lambda k: not factors[k].is_constant):
        product = merge_factor(mover, factors[k], by) if _fits(by, factors[k]) else None
        if product is not None and product.shape == factors[k].shape:
            return _with_inputs(mover, term, [*factors[:k], product, *factors[k + 1 :]])
    return None


def _convolution(mover: Mover, term: Term, by: Array) -> Term | None:
    """Return a convolution with multiplied weights; None if there is a bias, or the factor differs within channels."""
    weights = term.inputs[1]
    is_by_channel = all(count == 1 for axis, count in enumerate(by.shape) if axis != 1)
    if weights is None or not weights.is_constant or len(term.inputs) > 2 or not is_by_channel:
        return None
    merged = _constant(mover, weights, by.reshape(-1, *[1] * (len(weights.sizes) - 1)))
    return None if merged is None else mover.terms.make(
        term.kind, [term.inputs[0], merged], term.detail, term.dtype, term.shape
    )  # fmt: skip
