"""Terms of movement in a form of their own: so that equal movement, however it is written, is one term for all sizes.

What reshapes and transposes a value is one term "moved": the value's elements, in the order of its shape, are numbered
by factors; these are permuted, and the result has some shape. Slices, joins and others are simplified where that holds
for all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anydml.onnx.values import Array
from anydml.proving.sizes import Size, Sizes, divided, product
from anydml.proving.terms import Term, Terms, elements_of

MOST = 1 << 22
"""Most elements of a constant that is broadcast."""

Window = tuple[int, Size, Size, int]
"""An axis, the first coordinate that is taken, how many are, and the step."""


class Order(NamedTuple):
    """How a value is reshaped and transposed.

    Attributes:
        factors: sizes whose product is the number of elements; each numbers elements faster than those before it.
        perm: which factor is the first, second … of the result.
    """

    factors: Sizes
    perm: tuple[int, ...]

    def tidy(self) -> Order:
        """Return the same order with as few factors as possible."""
        kept = [k for k in self.perm if self.factors[k] != 1]
        runs: list[list[int]] = []
        for k in kept:
            between = self.factors[runs[-1][-1] + 1 : k] if runs and k > runs[-1][-1] else (0,)
            if all(size == 1 for size in between):
                runs[-1].append(k)
            else:
                runs.append([k])
        order = sorted(range(len(runs)), key=lambda run: runs[run][0])
        factors = tuple(product(self.factors[k] for k in runs[run]) for run in order)
        return Order(factors, tuple(order.index(run) for run in range(len(runs))))

    def permuted(self, perm: Sequence[int], shape: Sizes) -> Order | None:
        """Return the order of a value of this order and a shape, whose axes are permuted; None if it is not known."""
        split = _aligned([self.factors[k] for k in self.perm], shape)
        if split is None:
            return None
        parts, groups = split
        # The factors in the order of the source, each split as it is in the result.
        places, factors = dict[tuple[int, int], int](), list[Size]()
        for k in range(len(self.factors)):
            for part, size in enumerate(parts[self.perm.index(k)]):
                places[self.perm.index(k), part] = len(factors)
                factors.append(size)
        return Order(tuple(factors), tuple(places[each] for axis in perm for each in groups[axis])).tidy()


def _aligned(factors: Sequence[Size], shape: Sizes) -> tuple[list[list[Size]], list[list[tuple[int, int]]]] | None:
    """Split factors so that each size of a shape is a product of consecutive ones.

    Returns:
        The parts of each factor, and for each axis of the shape the factors and parts that it consists of; None if they
        cannot be split for all sizes.
    """
    parts: list[list[Size]] = [[] for _ in factors]
    groups: list[list[tuple[int, int]]] = [[] for _ in shape]
    k = axis = 0
    left: Size = factors[0] if factors else 1
    needed: Size = shape[0] if shape else 1
    while k < len(factors) and axis < len(shape):
        if left == 1:
            k += 1
            left = factors[k] if k < len(factors) else 1
            continue
        if needed == 1:
            axis += 1
            needed = shape[axis] if axis < len(shape) else 1
            continue
        for taken in (needed, left):
            one, other = divided(left, taken), divided(needed, taken)
            if taken != 0 and one is not None and other is not None:
                groups[axis].append((k, len(parts[k])))
                parts[k].append(taken)
                left, needed = one, other
                break
        else:
            return None
    ends = (left, *factors[k + 1 :], needed, *shape[axis + 1 :])
    return (parts, groups) if all(size == 1 for size in ends) else None


class Mover:
    """Makes terms of movement.

    Args:
        terms: makes terms.
        is_real: whether terms that are equal for real numbers, but not for floats, are one.

    Attributes:
        rounded: what was taken for equal that floats may round otherwise.
        assumed: sizes that are taken for no larger than a number, and that number.
    """

    def __init__(self, terms: Terms, is_real: bool = False) -> None:
        self.terms, self.is_real = terms, is_real
        self.rounded: set[str] = set()
        self.assumed: dict[Size, int] = {}

    def _moved(self, source: Term, order: Order, shape: Sizes) -> Term:
        order = order.tidy()
        is_plain = order.perm == tuple(range(len(order.perm)))
        if is_plain and source.shape == shape:
            return source
        known, factors = numbers(shape), numbers(order.factors)
        if source.is_constant and source.array is not None and known is not None and factors is not None:
            array = source.array if is_plain else source.array.reshape(factors).transpose(order.perm)
            return self.terms.constant(array.reshape(known))
        detail = None if is_plain else order, shape
        return self.terms.make("moved", [source], detail, source.dtype, shape)

    def _order(self, term: Term) -> tuple[Term, Order]:
        """Return the source of a value and its order."""
        if term.kind == "moved":
            (source,) = term.inputs
            assert source is not None, "it moves a value"
            order = term.detail[0]
            return source, order or Order(source.sizes, tuple(range(len(source.sizes))))
        return term, Order(term.sizes, tuple(range(len(term.sizes))))

    def reshape(self, term: Term, shape: Sizes) -> Term:
        """Return a value in another shape of as many elements."""
        known = numbers(shape)
        if term.kind == "sizes" and term.array is not None and term.dtype is not None and known is not None:
            return self.terms.known(term.array.reshape(known), term.dtype)
        source, order = self._order(term)
        return self._moved(source, order, shape)

    def transpose(self, term: Term, perm: Sequence[int]) -> Term:
        """Return a value whose axes are permuted: axis k of the result is axis ``perm[k]``."""
        shape = tuple(term.sizes[axis] for axis in perm)
        source, order = self._order(term)
        found = order.permuted(perm, term.sizes)
        if found is None:
            found = Order(term.sizes, tuple(perm))
            source = term
        return self._moved(source, found, shape)

    def slice(self, term: Term, windows: Sequence[Window]) -> Term:
        """Return what windows along some axes take of a value."""
        taken = sorted(
            window for window in windows if (window[1:]) != (0, term.sizes[window[0]], 1)
        )  # fmt: skip
        if not taken:
            return term
        shape = list[Size](term.sizes)
        for axis, _, count, _ in taken:
            shape[axis] = count
        known = numbers([n for window in taken for n in window])
        if term.array is not None and term.dtype is not None and known is not None:
            array = term.array
            for k in range(0, len(known), 4):
                axis, start, length, by = known[k : k + 4]
                array = array.take(start + np.arange(length) * by, axis)
            return self.terms.constant(array) if term.is_constant else self.terms.known(array, term.dtype)
        if term.kind == "slice":
            inner: dict[int, Window] = {window[0]: window for window in term.detail}
            whole: list[Window] = [(axis, 0, size, 1) for axis, size in enumerate(term.sizes)]
            (source,) = term.inputs
            assert source is not None, "it slices a value"
            for axis, first, count, step in taken:
                outer = inner.get(axis, whole[axis])
                inner[axis] = axis, outer[1] + first * outer[3], count, step * outer[3]
            return self.slice(source, [*inner.values()])
        return self.terms.make("slice", [term], tuple(taken), term.dtype, shape)

    def concat(self, terms: Sequence[Term], axis: int) -> Term:
        """Return values that are joined along an axis."""
        flat: list[Term] = []
        for term in terms:
            if term.sizes[axis] == 0 and len(terms) > 1:
                continue
            flat += [each for each in term.inputs if each] if (term.kind, term.detail) == ("concat", axis) else [term]
        flat = self._joined(flat or [terms[0]], axis)
        if len(flat) == 1:
            return flat[0]
        shape = [*flat[0].sizes]
        shape[axis] = sum((term.sizes[axis] for term in flat[1:]), flat[0].sizes[axis])
        if all(term.array is not None for term in flat) and flat[0].dtype is not None:
            if all(term.is_constant for term in flat):
                return self.terms.constant(np.concatenate([np.asarray(term.array) for term in flat], axis))
            elements = [elements_of(term) for term in flat]
            if all(each is not None for each in elements):
                return self.terms.known(np.concatenate([np.asarray(each) for each in elements], axis), flat[0].dtype)
        return self.terms.make("concat", flat, axis, flat[0].dtype, shape)

    def _joined(self, terms: Sequence[Term], axis: int) -> list[Term]:
        """Join slices of one value that are side by side."""
        found: list[Term] = []
        for term in terms:
            if found and found[-1].kind == term.kind == "slice" and found[-1].inputs == term.inputs:
                first, then = ({w[0]: w for w in each.detail} for each in (found[-1], term))
                whole = term.inputs[0]
                assert whole is not None, "it slices a value"
                a, b = (each.pop(axis, (axis, 0, whole.sizes[axis], 1)) for each in (first, then))
                if first == then and a[3] == b[3] and a[1] + a[2] * a[3] == b[1]:
                    found[-1] = self.slice(whole, [*first.values(), (axis, a[1], a[2] + b[2], a[3])])
                    continue
            found.append(term)
        return found

    def expand(self, term: Term, shape: Sizes) -> Term:
        """Return a value that is broadcast to a shape."""
        if term.shape == shape:
            return term
        if term.kind == "expand" and term.inputs[0] is not None:
            return self.expand(term.inputs[0], shape)
        if term.is_constant and term.array is not None and (known := numbers(shape)) and math.prod(known) <= MOST:
            return self.terms.constant(np.broadcast_to(term.array, known))
        return self.terms.make("expand", [term], shape, term.dtype, shape)

    def take(self, term: Term, indices: Term, axis: int) -> Term:
        """Return what is picked along an axis."""
        shape = (*term.sizes[:axis], *indices.sizes, *term.sizes[axis + 1 :])
        size, array = term.sizes[axis], indices.array
        if array is not None and array.dtype != object and array.size:
            if not isinstance(size, int) and (array < 0).any():
                return self.terms.make("taken", [term, indices], axis, term.dtype, shape)
            flat = np.where(array < 0, array + size, array).reshape(-1) if isinstance(size, int) else array.reshape(-1)
            step = int(flat[1] - flat[0]) if flat.size > 1 else 1
            if step > 0 and (np.diff(flat) == step).all():
                taken = self.slice(term, [(axis, int(flat[0]), flat.size, step)])
                return self.reshape(taken, shape)
            if term.is_constant and term.array is not None:
                return self.terms.constant(term.array.take(flat.reshape(array.shape), axis))
            indices = self.terms.constant(flat.astype(np.int64))
            flat_shape = (*term.sizes[:axis], flat.size, *term.sizes[axis + 1 :])
            made = self.terms.make("taken", [term, indices], axis, term.dtype, flat_shape)
            return self.reshape(made, shape)
        if indices.dtype is not None and indices.dtype != np.int64 and indices.is_constant and array is not None:
            indices = self.terms.constant(array.astype(np.int64))
        return self.terms.make("taken", [term, indices], axis, term.dtype, shape)


def numbers(sizes: Sequence[Size]) -> list[int] | None:
    """Return sizes as numbers; None if one is not a number."""
    found = [size for size in sizes if isinstance(size, int)]
    return found if len(found) == len(sizes) else None


def filled(term: Term) -> Array | None:
    """Return the element, without dimensions, that all elements of a constant are; None if there is none."""
    array = term.array
    if not term.is_constant or array is None or not array.size or array.dtype.hasobject:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    # As bytes, so that NaN equals itself and 0 differs from −0.
    marks = flat.view(np.uint8).reshape(flat.size, -1)
    is_filled = bool((marks[:2] == marks[0]).all()) and bool((marks == marks[0]).all())
    return flat[0].reshape(()) if is_filled else None
