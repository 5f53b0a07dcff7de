"""Sliding windows over an axis of a value."""

from __future__ import annotations

from anydml.moves.open_numbers import has_zero
from anydml.moves.pieces import Factor, NotComposableError, is_whole_by_comparison, on_strides, tidy
from anydml.moves.value import Value


def windows(value: Value, axis: int, count: int, length: int, step: int, apart: int = 1) -> Value:
    """``result[…, i, …, j] = value[…, step·i + apart·j, …]``.

    Args:
        value: the source.
        axis: the axis that is replaced by the windows' numbers.
        count: number of windows.
        length: elements per window, which become the last axis of the result.
        step: elements from one window to the next.
        apart: distance between neighbouring elements of a window.

    Raises:
        NotComposableError: the axis consists of several pieces or factors.
    """
    size, rank = value.sizes[axis], len(value.sizes)
    pieces = []
    for piece in map(tidy, value.without_empty().pieces):
        merged = [k for k, factor in enumerate(piece.factors) if factor.axis == axis]
        if not is_whole_by_comparison(piece, axis, size):
            raise NotComposableError(f"windows overlap along axis {axis}, which consists of several pieces")
        unmerged = [k for k in range(len(piece.factors)) if k not in merged]

        def along_windows(
            strides: tuple[int, ...], merged: list[int] = merged, unmerged: list[int] = unmerged
        ) -> tuple[int, tuple[int, ...]]:
            along = strides[merged[0]] if merged else 0
            return 0, (*(strides[k] for k in unmerged), along * step, along * apart)

        factors = (*(piece.factors[k] for k in unmerged), Factor(axis, count, 1), Factor(rank, length, 1))
        pieces.append(
            piece._replace(start=(*piece.start, 0), factors=factors, source=on_strides(piece.source, along_windows))
        )
    sizes = (*value.sizes[:axis], count, *value.sizes[axis + 1 :], length)
    return Value(sizes, value.element_size, () if has_zero(sizes) else tuple(pieces))
