"""`space_to_depth` and `depth_to_space`: blocks of pixels as channels, and back (see `depth_space` for the descs)."""

from __future__ import annotations

from typing import Literal

from anydml.errors import DescError
from anydml.operators.depth_space import blocks_rule
from anydml.operators.function import Array, Sizes, function
from anydml.operators.rule import Word, front
from anydml.symbols import holds


def _blocks(name: str, shape: Sizes, block: int) -> None:
    if len(shape) != 4:
        raise DescError(f"{name}: x has {len(shape)} dimensions", name, "x", "x must be N, C, H, W")
    if block < 1:
        raise DescError(f"{name}: block_size is {block}", name, "block_size", "block_size must be at least 1")


def _divides(name: str, d: int, size: int, by: int) -> None:
    if not holds(size % by == 0):
        message = f"{name}: x.shape[{d}] is {size}, which {by} does not divide"
        raise DescError(message, name, "block_size", "blocks must divide x")


@front
def check_to_depth(name: str, shape: Sizes, block: int, order: Word) -> tuple[int, Word, bool]:
    """Return the rule's numbers."""
    _blocks(name, shape, block)
    _divides(name, 2, shape[2], block)
    _divides(name, 3, shape[3], block)
    return block, order, False


@front
def check_to_space(name: str, shape: Sizes, block: int, order: Word) -> tuple[int, Word, bool]:
    """Return the rule's numbers."""
    _blocks(name, shape, block)
    _divides(name, 1, shape[1], block * block)
    return block, order, True


@function(check_to_depth, rule=blocks_rule)
def space_to_depth(
    x: Array,
    block_size: int,
    order: Literal["depth_column_row", "column_row_depth"] = "depth_column_row",
    *,
    out: Array | None = None,
) -> Array:
    """Rearrange blocks of pixels into channels (DML_OPERATOR_SPACE_TO_DEPTH1, without its limits).

    The inverse of `depth_to_space`.

    Args:
        x: array of any dtype: N, C, H, W.
        block_size: B, at least 1; must divide H and W.
        order: order of block rows, block columns and x's channels within the result's channels.
        out: output array of the result's shape and x's dtype.

    Returns:
        An array of shape N, C · B², H / B, W / B, new and contiguous, or `out`.

    Raises:
        DescError: x does not have four dimensions, or blocks do not divide it.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.space_to_depth(np.arange(4).reshape(1, 1, 2, 2), 2).shape
        (1, 4, 1, 1)
    """


@function(check_to_space, rule=blocks_rule)
def depth_to_space(
    x: Array,
    block_size: int,
    order: Literal["depth_column_row", "column_row_depth"] = "depth_column_row",
    *,
    out: Array | None = None,
) -> Array:
    """Rearrange channels into blocks of pixels (DML_OPERATOR_DEPTH_TO_SPACE1, without its limits).

    The inverse of `space_to_depth`.

    Args:
        x: array of any dtype: N, C, H, W.
        block_size: B, at least 1; B² must divide C.
        order: order of block rows, block columns and the result's channels within x's channels.
        out: output array of the result's shape and x's dtype.

    Returns:
        An array of shape N, C / B², H · B, W · B, new and contiguous, or `out`.

    Raises:
        DescError: x does not have four dimensions, or blocks do not divide its channels.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.depth_to_space(np.arange(4).reshape(1, 4, 1, 1), 2)[0, 0]
        array([[0, 1],
               [2, 3]])
    """
