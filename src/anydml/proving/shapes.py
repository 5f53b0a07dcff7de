"""Arithmetic of shapes on polynomials: the results of nodes for small tensors of integers, for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.proving.sizes import Polynomial, differ, lower_bound, quotient
from anydml.proving.terms import Term, Terms, elements_of


class UndecidedError(Exception):
    """A result is not the same expression for all sizes."""


def _is_equal(a: Any, b: Any) -> bool:
    if a == b:
        return True
    if differ(a, b):
        return False
    raise UndecidedError


def _is_less(a: Any, b: Any) -> bool:
    gap = b - a
    if (lower_bound(gap - 1) or 0) >= 0 and lower_bound(gap - 1) is not None:
        return True
    if lower_bound(-gap) is not None and (lower_bound(-gap) or 0) >= 0:
        return False
    raise UndecidedError


def _divide(terms: Terms, a: Any, b: Any) -> Any:
    # ONNX rounds quotients of integers towards 0, which is down for numbers of at least 0.
    if isinstance(a, Polynomial) or isinstance(b, Polynomial):
        if not (terms.bounds.is_natural(a) and terms.bounds.is_natural(b)):
            raise UndecidedError
        return quotient(a, b)
    if not b:
        raise UndecidedError
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _larger(a: Any, b: Any) -> Any:
    return b if _is_less(a, b) else a


def _smaller(a: Any, b: Any) -> Any:
    return a if _is_less(a, b) else b


_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Equal": _is_equal,
    "Less": _is_less, "Greater": lambda a, b: _is_less(b, a), "LessOrEqual": lambda a, b: not _is_less(b, a),
    "GreaterOrEqual": lambda a, b: not _is_less(a, b), "Max": _larger, "Min": _smaller,
    "And": lambda a, b: a and b, "Or": lambda a, b: a or b,
}  # fmt: skip
"""Operators of two integers or polynomials."""


def compute(terms: Terms, kind: str, inputs: Sequence[Term | None], dtype: np.dtype[Any] | None) -> Term | None:
    """Return the result of an element-wise operator on tensors of sizes; None if it is not the same for all sizes."""
    arrays = [elements_of(term) for term in inputs]
    present = [array for array in arrays if array is not None]
    if dtype is None or dtype.kind not in "iub" or not present or len(present) != len(inputs):
        return None
    try:
        result = _map_elements(partial(_divide, terms), present) if kind == "Div" else _compute(kind, present, dtype)
        return None if result is None else terms.integers(result, dtype)
    except (UndecidedError, OverflowError, ValueError):
        # NumPy raises ValueError for shapes that do not fit.
        return None


def _compute(kind: str, present: Sequence[Array], dtype: np.dtype[Any]) -> Array | None:
    if kind == "Cast":
        return present[0] if dtype.kind == "i" and dtype.itemsize >= 4 else None
    if kind == "Neg":
        return _map_elements(lambda a: -a, present)
    if kind == "Where" and len(present) == 3:
        return _map_elements(lambda c, a, b: a if c else b, present)
    if kind in _PAIRS and len(present) == 2:
        return _map_elements(_PAIRS[kind], present)
    if kind in ("Max", "Min", "Sum") and len(present) > 2:
        result = present[0]
        for array in present[1:]:
            result = _map_elements(_PAIRS["Add" if kind == "Sum" else kind], [result, array])
        return result
    return None


def _map_elements(work: Callable[..., Any], arrays: Sequence[Array]) -> Array:
    shaped = np.broadcast_arrays(*arrays)
    result = np.empty(shaped[0].shape, object)
    flat = result.reshape(-1)
    for k, elements in enumerate(zip(*(array.reshape(-1) for array in shaped), strict=True)):
        flat[k] = work(*elements)
    return result
