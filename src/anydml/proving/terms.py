"""Terms: how a value is computed from a model's inputs. Equal terms are one object, across models."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from anydml.functions import copy
from anydml.onnx.graph_values import Array
from anydml.proving.bounds import Bounds
from anydml.proving.rounding import constant_ulps
from anydml.proving.sizes import DERIVED_NAME, Polynomial, Sizes, name

_PLACEHOLDER_WEIGHTS = 251
"""Elements of weights that are not compared: numbers that all dtypes of floats represent."""

MAX_FOLLOWED_ELEMENTS = 4096
"""Maximum number of elements of a tensor of integers that is kept as polynomials."""


MAX_CONSTANT_ULPS = 8
"""Largest allowed difference of a constant between runtimes (see `anydml.proving.rounding`)."""


class Term:
    """A value, as a function of a model's inputs.

    Attributes:
        number: the term's number, larger than the numbers of its inputs.
        kind: the operator with the version that defined it; or "input", "constant", "sizes", "moved" and others.
        inputs: the terms that the term is computed from.
        detail: everything else that it depends on, such as attributes; hashable.
        dtype: the dtype; None if unknown, or the value is not a tensor.
        shape: the sizes; None if not even the rank is known.
        array: the elements of a constant, or of a small tensor of sizes; unrounded products have 64 bits.
    """

    __slots__ = ("array", "detail", "dtype", "inputs", "kind", "number", "shape")

    def __init__(
        self,
        number: int,
        kind: str,
        inputs: tuple[Term | None, ...],
        detail: Any,
        dtype: np.dtype[Any] | None,
        shape: Sizes | None,
        array: Array | None,
    ) -> None:
        self.number, self.kind, self.inputs, self.detail = number, kind, inputs, detail
        self.dtype, self.shape, self.array = dtype, shape, array

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known, and the same for all sizes."""
        return self.kind == "constant"

    @property
    def sizes(self) -> Sizes:
        """The shape, which must be known."""
        assert self.shape is not None, "its shape is known"
        return self.shape


Weights = Literal["bits", "value", "none"]
"""The comparison of constants of floats: by bits, by value (−0 is 0), or none: all of one shape are equal."""


class Terms:
    """Makes terms, each once.

    Args:
        weights: how constants are compared.
        is_real: whether terms that are equal for real numbers, but not for floats, are one.

    Attributes:
        is_real: whether they are.
        all: the terms by number.
        bounds: lower bounds of sizes.
        off: the differences of constants that count as equal, in units in the last place.
        rounded: numbers of the constants that another runtime may round differently.
    """

    def __init__(self, weights: Weights = "bits", is_real: bool = False) -> None:
        self._weights, self.is_real = weights, is_real
        self.all: list[Term] = []
        self.bounds = Bounds()
        self.off: list[float] = []
        self.rounded: set[int] = set()
        self._stored: set[int] = set()
        self._settled: dict[Hashable, list[Term]] = {}
        self._constants: dict[Hashable, list[Term]] = {}
        self._equal: dict[int, Term] = {}
        self._made: dict[Hashable, Term] = {}

    def make(
        self,
        kind: str,
        inputs: Sequence[Term | None] = (),
        detail: Hashable = None,
        dtype: np.dtype[Any] | None = None,
        shape: Sequence[Any] | None = None,
        array: Array | None = None,
    ) -> Term:
        """Return the term of a kind, inputs and detail. A size of None gets a new name."""
        key = kind, tuple(None if term is None else term.number for term in inputs), detail
        if key not in self._made:
            term_number = len(self.all)
            sizes = (
                None
                if shape is None
                else tuple(
                    name(f"{DERIVED_NAME}size {axis} of #{term_number}") if size is None else size
                    for axis, size in enumerate(shape)
                )
            )
            self._made[key] = Term(term_number, kind, tuple(inputs), detail, dtype, sizes, array)
            self.all.append(self._made[key])
        return self._made[key]

    def unique(self, kind: str, dtype: np.dtype[Any] | None, shape: Sequence[Any] | None) -> Term:
        """Return a term that equals no other."""
        return self.make(kind, (), len(self.all), dtype, shape)

    def constant(self, array: Array, like: Term | None = None, dtype: np.dtype[Any] | None = None) -> Term:
        """Return a constant, which equals those with the same bytes, dtype and shape.

        Args:
            array: the elements.
            like: a constant with the same elements in this order, perhaps of another shape.
            dtype: the dtype, if the elements have 64 bits and are not rounded: the constant equals a rounded one.
        """
        packed = _pack(array)
        content: Hashable
        if self._weights == "value" and packed.dtype.kind == "f":
            packed = np.where(packed == 0, packed.dtype.type(0), np.where(np.isnan(packed), np.nan, packed))
            packed = packed.astype(array.dtype)
        if self._weights == "none" and packed.dtype.kind not in "iub" and packed.size > 1:
            # Neighbouring elements differ, so that no rule for special weights, such as zeros, applies.
            packed, content = (
                (np.arange(packed.size) % _PLACEHOLDER_WEIGHTS).astype(packed.dtype).reshape(packed.shape),
                (),
            )
        elif like is not None:
            content = like.detail[2]
        elif packed.dtype.hasobject:
            content = tuple(packed.reshape(-1).tolist())
        else:
            content = hashlib.sha256(packed.reshape(-1).view(np.uint8).data).digest()
        dtype = packed.dtype if dtype is None else dtype
        is_rounded, count = packed.dtype == dtype, len(self.all)
        key = packed.dtype.name, packed.shape, content
        term = self.make("constant", (), key if is_rounded else (*key, dtype.name), dtype, packed.shape, packed)
        if dtype.kind == "f" and term.number == count:
            self._note(term, is_rounded)
        return self._equal.get(term.number, term)

    def stored(self, array: Array) -> Term:
        """Return a constant that a model contains, which may equal one that the other model computes."""
        term = self.constant(array)
        self._stored.add(term.number)
        self.rounded.discard(term.number)
        return self.settle(term, False)

    def settle(self, term: Term, is_rounded: bool) -> Term:
        """Return a constant, or the constant of the other model that differs from this one by rounding only."""
        array = term.array
        if not self.is_real or array is None or array.dtype.kind != "f" or not array.size:
            return term
        if is_rounded and term.number not in self._stored:
            self.rounded.add(term.number)
        others = self._settled.setdefault((array.dtype, array.shape), [])
        for constant in others:
            if (constant.number in self.rounded) == (term.number in self.rounded) or constant.array is None:
                continue
            off = constant_ulps(constant.array, array)
            if off <= MAX_CONSTANT_ULPS:
                self.off.append(off)
                return constant
        others += [term] * (term not in others)
        return term

    def moved(self, array: Array, sources: Sequence[Term], keeps_order: bool = False) -> Term:
        """Return a constant of elements that are moved from other constants, and rounded if any of these is.

        Args:
            array: the elements.
            sources: the constants that they are from, of one dtype.
            keeps_order: whether these are all elements of one constant in its order, perhaps in another shape.
        """
        term = self.constant(array, sources[0] if keeps_order else None, sources[0].dtype)
        return self.settle(term, any(source.number in self.rounded for source in sources))

    def _note(self, term: Term, is_rounded: bool) -> None:
        """Note a new constant, and which constant equals it up to rounding if either is an unrounded product."""
        for constant in self._constants.get((term.dtype, term.shape, not is_rounded), ()):
            off = _off(term, constant)
            if off <= 1:
                self.off.append(off)
                self._equal[term.number] = constant
                return
        self._constants.setdefault((term.dtype, term.shape, is_rounded), []).append(term)

    def integers(self, elements: Array, dtype: np.dtype[Any]) -> Term:
        """Return a tensor of integers, some of which may be polynomials."""
        if not any(isinstance(element, Polynomial) for element in elements.flat):
            return self.constant(elements.astype(dtype))
        detail = dtype.name, elements.shape, tuple(elements.flat)
        return self.make("sizes", (), detail, dtype, elements.shape, elements)


def _off(first: Term, second: Term) -> float:
    """Return the largest difference of two constants, in units in the last place.

    Numbers so small that floats have fewer digits for them may be off by more, but never by more digits than the
    largest number of the constants.
    """
    assert first.array is not None, "it is a constant"
    assert second.array is not None, "it is a constant"
    assert first.dtype is not None, "it is a constant"
    x, y = (array.astype(np.float64) for array in (first.array, second.array))
    info = np.finfo(first.dtype)
    sizes = np.maximum(np.abs(x), np.abs(y))
    eps, smallest = float(info.eps), float(info.smallest_subnormal)
    unit = np.minimum(sizes * eps + smallest, np.max(sizes, initial=0) * eps)
    with np.errstate(invalid="ignore"):
        units = np.abs(x - y) / np.where(x == y, 1, unit)
    off = float(np.max(units)) if units.size else 0.0
    return off if np.isfinite(off) else np.inf


def _pack(array: Array) -> Array:
    """Return an array in row-major order."""
    if array.flags.c_contiguous or array.dtype.hasobject:
        return np.ascontiguousarray(array).reshape(array.shape)
    # Weights may have gigabytes, which NumPy would transpose element by element. Bits, because moves have fewer dtypes.
    width = array.itemsize
    return np.asarray(copy(array.view(f"{'u' if width <= 8 else 'V'}{width}"))).view(array.dtype)


def elements_of(term: Term | None) -> Array | None:
    """Return the elements of a small tensor of integers as integers and polynomials; None for any other tensor."""
    if (
        term is None
        or term.array is None
        or term.array.size > MAX_FOLLOWED_ELEMENTS
        or term.dtype is None
        or term.dtype.kind not in "iub"
    ):
        return None
    if term.array.dtype == object:
        return term.array
    elements = np.empty(term.array.shape, object)
    elements.reshape(-1)[:] = term.array.reshape(-1).tolist()
    return elements


def vector_of(term: Term | None) -> list[Any] | None:
    """Return the elements of a small 1-D tensor of integers; None for any other tensor."""
    elements = elements_of(term)
    return elements.tolist() if elements is not None and elements.ndim == 1 else None


def with_ancestors(outputs: Iterable[Term]) -> list[Term]:
    """Return terms and all terms that they are computed from, in order."""
    terms: dict[int, Term] = {}
    stack = [*outputs]
    while stack:
        term = stack.pop()
        if term.number not in terms:
            terms[term.number] = term
            stack += [term_input for term_input in term.inputs if term_input is not None]
    return [terms[term_number] for term_number in sorted(terms)]
