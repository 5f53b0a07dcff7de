"""Views: any combination of reshapes, transposes and repeats of a value is one term of the kind "moved".

So two chains of nodes that move elements alike become the same term.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.proving.orders import REPEATED_FACTOR, Entry, Order, as_integers
from anydml.proving.sizes import Size, Sizes, product
from anydml.proving.terms import MAX_FOLLOWED_ELEMENTS, Term, Terms

MAX_REPEATED_ELEMENTS = 1 << 22
"""Maximum number of elements of a constant that is repeated."""


class Viewer:
    """Makes terms for views of other terms.

    Args:
        terms: makes terms.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def view(self, source: Term, factors: Sequence[Size], entries: Sequence[Entry], shape: Sizes) -> Term:
        """Return a view of a value.

        Args:
            source: a value.
            factors: sizes whose product is the value's number of elements.
            entries: the factors of the result.
            shape: the result's shape, which has as many elements as the factors.
        """
        if source.kind == "moved":
            inner, source_order = self.source(source)
            split = source_order.along(tuple(factors))
            if split is not None:
                inner_entries = [
                    entry for k, size in entries for entry in ([(k, size)] if k == REPEATED_FACTOR else split[1][k])
                ]
                return self.view(inner, split[0], inner_entries, shape)
        assert product(factors) == product(source.sizes), "factors are those of the source"
        order = Order.of(factors, entries)
        if order.is_plain and source.shape == shape:
            return source
        known_shape, sizes = as_integers(shape), as_integers((*order.factors, *order.repeats))
        max_factors = MAX_REPEATED_ELEMENTS if source.is_constant else MAX_FOLLOWED_ELEMENTS
        is_small = (
            known_shape is not None
            and sizes is not None
            and (not order.repeats or math.prod(known_shape) <= max_factors)
        )
        if source.array is not None and source.dtype is not None and known_shape is not None and is_small:
            array = reorder(source.array, order).reshape(known_shape)
            if not source.is_constant:
                return self.terms.integers(array, source.dtype)
            return self.terms.moved(array, [source], order.is_plain)
        return self.terms.make("moved", [source], (None if order.is_plain else order, shape), source.dtype, shape)

    def source(self, term: Term) -> tuple[Term, Order]:
        """Return the source of a view and the order of its elements; any other value is its own source."""
        if term.kind == "moved":
            (source,) = term.inputs
            assert source is not None, "it moves a value"
            order = term.detail[0]
            return source, order or Order.of(source.sizes, [*enumerate(source.sizes)])
        return term, Order.of(term.sizes, [*enumerate(term.sizes)])

    def along(self, term: Term) -> tuple[Term, Sizes, list[list[Entry]]]:
        """Return the source of a view, the source's factors, and the view's factors by its axes."""
        if term.kind != "moved" and 0 not in term.sizes:
            longer = [size for size in term.sizes if size != 1]
            places = iter(range(len(longer)))
            return term, tuple(longer), [[] if size == 1 else [(next(places), size)] for size in term.sizes]
        source, order = self.source(term)
        split = order.along(term.sizes)
        if split is None:
            return term, term.sizes, own_axes(term)
        return source, *split

    def reshape(self, term: Term, shape: Sizes) -> Term:
        """Return a value in another shape with the same number of elements."""
        if term.shape == shape:
            return term
        source, order = self.source(term)
        return self.view(source, order.factors, order.entries(), shape)

    def transpose(self, term: Term, perm: Sequence[int]) -> Term:
        """Permute axes: axis k of the result is axis ``perm[k]``."""
        source, factors, axes = self.along(term)
        shape = tuple(term.sizes[axis] for axis in perm)
        return self.view(source, factors, [entry for axis in perm for entry in axes[axis]], shape)

    def expand(self, term: Term, shape: Sizes) -> Term:
        """Broadcast a value to a shape."""
        if term.shape == shape:
            return term
        aligned_sizes = (*(1,) * (len(shape) - len(term.sizes)), *term.sizes)
        if any(size_now not in (1, size) for size_now, size in zip(aligned_sizes, shape, strict=True)):
            return self.terms.make("expand", [term], shape, term.dtype, shape)
        source, factors, axes = self.along(term)
        entries: list[Entry] = []
        for axis, (old_size, size) in enumerate(zip(aligned_sizes, shape, strict=True)):
            is_kept = old_size == size
            entries += axes[axis - len(shape) + len(axes)] if is_kept and old_size != 1 else [(REPEATED_FACTOR, size)]
        return self.view(source, factors, entries, shape)

    def tile(self, term: Term, times: Sequence[Size]) -> Term:
        """Repeat a value along its axes."""
        source, factors, axes = self.along(term)
        entries = [
            entry
            for n, axis_entries in zip(times, axes, strict=True)
            for entry in [(REPEATED_FACTOR, n), *axis_entries]
        ]
        return self.view(source, factors, entries, tuple(n * size for n, size in zip(times, term.sizes, strict=True)))


def own_axes(term: Term) -> list[list[Entry]]:
    """Return the factors of a value by its axes, as if the value were a view of itself."""
    return [[(axis, size)] for axis, size in enumerate(term.sizes)]


def reorder(array: Array, order: Order) -> Array:
    """Return elements in an order, with an axis for each factor."""
    factors, sizes = as_integers(order.factors), as_integers([size for _, size in order.entries()])
    assert factors is not None, "they are numbers"
    assert sizes is not None, "they are numbers"
    array = array.reshape(factors).transpose([k for k in order.perm if k != REPEATED_FACTOR])
    for axis, k in enumerate(order.perm):
        if k == REPEATED_FACTOR:
            array = np.expand_dims(array, axis)
    return np.broadcast_to(array, sizes)
