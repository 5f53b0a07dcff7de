"""`tril` and `triu`: triangles of matrices, with zeros elsewhere, like ONNX's Trilu."""

from __future__ import annotations

from anydml.operators.diagonal_matrix import BEYOND_DIAGONALS, check_matrices, diagonal_matrix_rule
from anydml.operators.function import Array, Sizes, function
from anydml.operators.rule import Item, call_check, holds
from anydml.symbols import are_known


def _clamped_diagonal(name: str, shape: Sizes, k: int) -> int:
    """Check x's rank; return diagonal k, or the first diagonal outside x if k lies beyond it."""
    check_matrices(name, shape)
    if are_known((k,) * 1):
        return min(max(k, 0 - BEYOND_DIAGONALS), BEYOND_DIAGONALS - 1)
    if not holds(k < BEYOND_DIAGONALS):
        return BEYOND_DIAGONALS - 1
    return k if holds(k >= 0 - BEYOND_DIAGONALS) else 0 - BEYOND_DIAGONALS


@call_check
def check_tril(name: str, shape: Sizes, k: int) -> tuple[Item | None, int, int]:
    """Return no value, and the diagonals where there are zeros."""
    return None, _clamped_diagonal(name, shape, k) + 1, BEYOND_DIAGONALS


@call_check
def check_triu(name: str, shape: Sizes, k: int) -> tuple[Item | None, int, int]:
    """Return no value, and the diagonals where there are zeros."""
    return None, -BEYOND_DIAGONALS, _clamped_diagonal(name, shape, k)


@function(check_tril, rule=diagonal_matrix_rule)
def tril(x: Array, k: int = 0, *, out: Array | None = None) -> Array:
    """Copy the lower triangle of matrices, like the array API's function; elements above diagonal k become 0.

    Args:
        x: array of any dtype with at least two dimensions; the last two are rows and columns.
        k: the last diagonal that is kept; 0 is the main diagonal, 1 the one above it.
        out: output array of x's shape and dtype.

    Returns:
        An array of x's shape, new and contiguous, or `out`.

    Raises:
        DescError: x has fewer than two dimensions.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.tril(np.ones((3, 3), int))
        array([[1, 0, 0],
               [1, 1, 0],
               [1, 1, 1]])
    """


@function(check_triu, rule=diagonal_matrix_rule)
def triu(x: Array, k: int = 0, *, out: Array | None = None) -> Array:
    """Copy the upper triangle of matrices, like the array API's function; elements below diagonal k become 0.

    Args:
        x: array of any dtype with at least two dimensions; the last two are rows and columns.
        k: the first diagonal that is kept; 0 is the main diagonal, 1 the one above it.
        out: output array of x's shape and dtype.

    Returns:
        An array of x's shape, new and contiguous, or `out`.

    Raises:
        DescError: x has fewer than two dimensions.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.triu(np.ones((3, 3), int), 1)
        array([[0, 1, 1],
               [0, 0, 1],
               [0, 0, 0]])
    """
