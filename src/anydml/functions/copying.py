"""`copy`: the elements of any view (transposed, reversed, stepped, broadcast) as a contiguous array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anydml.functions.public_functions import public_function
from anydml.operators.element_wise_identity import copy_rule
from anydml.operators.function import Array, F, Function, Sizes, parameters_of
from anydml.operators.rule import call_check


@call_check
def check_copy(name: str, shape: Sizes) -> tuple[()]:
    """Check nothing, since any array can be copied."""
    return ()


def _copy_function(check: Callable[..., Any], rule: Callable[..., None]) -> Callable[[F], F]:
    def make(stub: F) -> F:
        function: Any = public_function(Function(stub, parameters_of(stub), check, rule))
        return function  # type: ignore[no-any-return]

    return make


@_copy_function(check_copy, rule=copy_rule)
def copy(x: Array, out: Array | None = None) -> Array:
    """Copy the elements of an array: ``result[c] = x[c]``.

    Args:
        x: array of any shape, dtype and strides: a transposed, reversed, stepped or broadcast view, of any library.
        out: array of x's shape and dtype to write to, of any strides.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        BindingError: x has no memory that could be read, or `out` does not fit, or overlaps x or itself.

    Examples:
        >>> y = dml.copy(np.arange(6).reshape(2, 3).T)
        >>> y.flags.c_contiguous
        True
    """
