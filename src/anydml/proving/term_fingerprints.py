"""Fingerprints of terms without symbolic sizes other than a batch: 64 bits per element, hashes of its computation.

They follow elements through movement and through nodes that compute element by element, along rows, or as products, so
that they find equal values whose terms differ because nodes are in another order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.proving.arithmetic import COMMUTATIVE_OPERATORS
from anydml.proving.batches import Batch
from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.proving.fingerprint_arithmetic import (
    Marks,
    NoFingerprintError,
    mix,
    of_array,
    of_negative,
    of_place,
    of_product,
    seed_of,
    spread,
)
from anydml.proving.rounding import nearest
from anydml.proving.terms import MAX_CONSTANT_ULPS, Term, Terms, with_ancestors
from anydml.proving.views import reorder as moved_array

MAX_MARKS = 1 << 27
"""Maximum number of elements of all values."""


def fingerprints_of(
    first: Sequence[Term], second: Sequence[Term], batch: Batch, terms: Terms
) -> dict[int, Marks | None]:
    """Return the fingerprints of two models' terms by number; None for terms that have none.

    Args:
        first: results of a model.
        second: those of the other one.
        batch: the batch, along which all fingerprints are the same, so that only one place is computed.
        terms: all terms. If numbers are real, the fingerprints of sums do not depend on the order of additions.

    Raises:
        NoFingerprintError: there are too many elements.
    """
    marks_of, marks_left = dict[int, Marks | None](), MAX_MARKS
    arrays = _rounded_constants(with_ancestors(first), with_ancestors(second), terms)
    with np.errstate(over="ignore"):
        for term in with_ancestors([*first, *second]):
            if term.shape is not None and (sizes := batch.inner(term.shape)) is not None:
                marks_left -= math.prod(sizes)
            if marks_left < 0:
                raise NoFingerprintError("there are too many elements")
            array = arrays.get(term.number)
            marks_of[term.number] = _marks(term, marks_of, batch, terms.is_real) if array is None else of_array(array)
    return marks_of


def _rounded_constants(first: Sequence[Term], second: Sequence[Term], terms: Terms) -> dict[int, Array]:
    """Return by number the constants that may be rounded otherwise, with the nearest elements of the other model.

    Unrounded constants are rounded.
    """
    shared = {term.number for term in first} & {term.number for term in second}
    models = [[term for term in model if term.number not in shared] for model in (first, second)]
    arrays = {}
    for model, other in (models, models[::-1]):
        stored = [term.array for term in other if term.is_constant and term.number not in terms.rounded]
        for term in model:
            array = term.array
            if array is None or term.dtype is None or term.dtype.kind != "f":
                continue
            if array.dtype != term.dtype:
                # Numbers below the normal ones would lose digits.
                if not ((array != 0) & (np.abs(array) < float(np.finfo(term.dtype).tiny))).any():
                    arrays[term.number] = array.astype(term.dtype)
            elif term.number in terms.rounded:
                near = [known for known in stored if known is not None and known.dtype == term.dtype]
                arrays[term.number], off = nearest(array, near, MAX_CONSTANT_ULPS)
                terms.off += [off] * bool(off)
    return arrays


def _marks(term: Term, marks_of: Mapping[int, Marks | None], batch: Batch, is_real: bool) -> Marks | None:
    sizes = None if term.shape is None else batch.inner(term.shape)
    # For a kernel larger than the image, the size may be negative, and runtimes disagree.
    if sizes is None or min(sizes, default=0) < 0 or (term.dtype is not None and term.dtype.hasobject):
        return None
    if term.is_constant and term.array is not None:
        return of_array(term.array)
    known_marks = [None if term_input is None else marks_of[term_input.number] for term_input in term.inputs]
    operator = term.kind.partition("@")[0]
    is_unknown = any(
        term_input is not None and marks is None for term_input, marks in zip(term.inputs, known_marks, strict=True)
    )
    if is_unknown or not batch.keeps(term):
        return _opaque(term, known_marks, sizes)
    marks = [array for array in known_marks if array is not None]
    moved = _moved_marks(term, marks, sizes, batch)
    if moved is not None:
        return moved
    if operator == "Neg":
        return of_negative(marks[0])
    if is_real and term.kind in ("Add@", "Sub@"):
        return np.broadcast_to(marks[0] + (marks[1] if term.kind == "Add@" else of_negative(marks[1])), sizes)
    if term.kind == "Mul@":
        return np.broadcast_to(of_product(seed_of("Mul"), *marks), sizes)
    if operator in ELEMENTWISE_OPERATORS and term.kind.endswith("@"):
        return _element_by_element(term, operator, known_marks, marks, sizes)
    if term.kind == "dot":
        return _dot(marks, term.detail)
    if term.kind.startswith("Reduce") and "@" not in term.kind and len(marks) == 1:
        axes, detail = term.detail
        return mix(seed_of(f"{term.kind}:{detail}"), _combine_along(marks[0], axes)).reshape(sizes)
    if term.kind in ("Softmax", "LogSoftmax", "LayerNormalization"):
        return (
            _normalize(term, operator, marks) if len(marks) == len(known_marks) else _opaque(term, known_marks, sizes)
        )
    return _opaque(term, known_marks, sizes)


def _element_by_element(
    term: Term, operator: str, known_marks: list[Marks | None], marks: list[Marks], sizes: list[int]
) -> Marks:
    left_out = [k for k, array in enumerate(known_marks) if array is None]
    dtype = str(term.dtype) if operator == "Cast" else ""
    text = f"{operator}:{term.detail[0]}:{left_out}:{dtype}"
    if operator in COMMUTATIVE_OPERATORS and len(marks) == 2:
        pair = np.broadcast_arrays(*marks)
        marks = [np.minimum(*pair), np.maximum(*pair)]
    return np.broadcast_to(mix(seed_of(text), *marks), sizes)


def _normalize(term: Term, operator: str, marks: list[Marks]) -> Marks:
    """Return the fingerprints of a normalization along an axis, or along all axes from one on."""
    axes, detail = term.detail
    row = np.expand_dims(_combine_along(marks[0], axes), axes)
    return mix(seed_of(f"{operator}:{detail}"), marks[0], row, *marks[1:])


def _dot(marks: list[Marks], added: tuple[int, ...]) -> Marks:
    """Return the fingerprints of sums of products along axes, which do not depend on the order of terms."""
    first, second = (array.shape for array in marks)
    axes = [axis for axis in range(len(first)) if axis not in added]
    batch_axes = [axis for axis in axes if first[axis] == second[axis]]
    free_axes = [[axis for axis in axes if axis not in batch_axes and shape[axis] != 1] for shape in (first, second)]
    batch = [first[axis] for axis in batch_axes]
    count = math.prod(first[axis] for axis in added)
    rows, columns = (
        spread(spread(array + _ODD))
        .transpose([*batch_axes, *free, *(axis for axis in axes if axis not in batch_axes + free), *added])
        .reshape(*batch, math.prod(array.shape[axis] for axis in free), count)
        for array, free in zip(marks, free_axes, strict=True)
    )
    # Sums modulo 2⁶⁴, which einsum computes on one thread.
    product = mix(seed_of(f"dot product of {count}"), np.einsum("...ik,...jk->...ij", rows, columns))
    sizes = [*batch, *(shape[axis] for shape, axes in zip((first, second), free_axes, strict=True) for axis in axes)]
    order = [*batch_axes, *free_axes[0], *free_axes[1]]
    moved = product.reshape(sizes).transpose([order.index(axis) for axis in axes if axis in order])
    return moved.reshape([second[axis] if first[axis] == 1 else first[axis] for axis in axes])


def _combine_along(marks: Marks, axes: tuple[int, ...]) -> Marks:
    """Combine fingerprints along axes, independently of their order."""
    count = int(np.prod([marks.shape[axis] for axis in axes], dtype=np.int64))
    return mix(count, spread(spread(marks) + _ODD).sum(axes, dtype=np.uint64))


_ODD = np.uint64(0xD1B54A32D192ED03)


def _moved_marks(term: Term, marks: list[Marks], sizes: list[int], batch: Batch) -> Marks | None:
    """Return the fingerprints of a moved value; None if it is computed."""
    detail: Any = term.detail
    match term.kind:
        case "moved":
            order = detail[0]
            return (marks[0] if order is None else moved_array(marks[0], batch.order(order))).reshape(sizes)
        case "slice":
            result = marks[0]
            for axis, first, count, step in detail:
                result = result.take(first + np.arange(count) * step, axis)
            return result
        case "concat":
            return np.concatenate(marks, detail)
        case "expand":
            return np.broadcast_to(marks[0], sizes)
        case "taken":
            indices = term.inputs[1]
            array = None if indices is None else indices.array
            if array is None or array.dtype == object:
                return None
            return np.asarray(marks[0].take(array % marks[0].shape[detail], detail))
    return None


def _opaque(term: Term, known_marks: list[Marks | None], sizes: list[int]) -> Marks:
    """Return fingerprints that depend on all inputs as a whole and on the place of an element."""
    text = f"{term.kind}:{_detail(term)}:{term.shape}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    for term_input, marks in zip(term.inputs, known_marks, strict=True):
        if term_input is None or marks is None:
            # Inputs without fingerprints must be the same term.
            digest.update(f"{None if term_input is None else term_input.number};".encode())
        else:
            digest.update(f"{term_input.shape}:{term_input.dtype};".encode())
            digest.update(np.ascontiguousarray(marks).data)
    return of_place(int.from_bytes(digest.digest(), "little"), sizes)


def _detail(term: Term) -> object:
    if term.kind == "input" and isinstance(term.detail, tuple):
        return term.detail[0]
    return term.detail
