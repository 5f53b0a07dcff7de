"""Windows of slices along axes, by the factors of the sliced value."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.proving.orders import REPEATED, Entry, aligned
from anydml.proving.sizes import Size, Sizes, divided, lower_bound, product
from anydml.proving.terms import Term

Window = tuple[int, Size, Size, int]
"""An axis, the first coordinate that is taken, how many are, and the step."""

Part = tuple[Size, Size, int]
"""The first coordinate that is taken along an axis, how many are, and the step."""


def by_factor(axes: list[list[Entry]], windows: Sequence[Window]) -> dict[int, Part] | None:
    """Return windows by the factors of a source, and set the sizes of these; None if they take no whole ones."""
    parts = dict[int, Part]()
    for axis, first, count, step in windows:
        entries = [(k, size) for k, size in axes[axis] if size != 1]
        if not entries:
            return None
        (k, _), inner_count = entries[0], product(size for _, size in entries[1:])
        start, length = divided(first, inner_count), divided(count, inner_count)
        if start is None or length is None or (step != 1 and len(entries) > 1):
            return None
        if k != REPEATED:
            parts[k] = start, length, step
        axes[axis] = [(k, length), *entries[1:]]
    return parts


def outward(source: Term, factors: Sizes, windows: dict[int, Part]) -> tuple[Sizes, dict[int, Part]] | None:
    """Return the factors of what a slice is of, with the slice's windows and others; None if they do not fit."""
    split, (base,) = aligned(factors, source.sizes), source.inputs
    if split is None or base is None or any(len(parts) != 1 for parts in split[0]):
        return None
    current_factors, composed = [*factors], {**windows}
    for axis, first, _, step in source.detail:
        inner = [k for k, _ in split[1][axis]]
        if len(inner) != 1:
            return None
        current_factors[inner[0]] = base.sizes[axis]
        start, count, by = windows.get(inner[0], (0, source.sizes[axis], 1))
        composed[inner[0]] = first + start * step, count, by * step
    return tuple(current_factors), composed


def _within(window: Part, at: Size, size: Size) -> Part | None:
    """Return what a window takes of a part of an axis; None if that is not the same for all sizes.

    Args:
        window: the first coordinate that is taken, how many are, and the step.
        at: the first coordinate of the part.
        size: the size of the part.
    """
    first, count, step = window
    if step == 1:
        start, end = _larger(first, at), _larger(-first - count, -at - size)
        length = None if start is None or end is None else _larger(-end - start, 0)
        return None if start is None or length is None else (start - at, length, 1)
    if not (isinstance(first, int) and isinstance(count, int) and isinstance(at, int) and isinstance(size, int)):
        return None
    coordinates = [k - at for k in range(first, first + count * step, step) if at <= k < at + size]
    return coordinates[0] if coordinates else 0, len(coordinates), step


def _larger(first: Size, second: Size) -> Size | None:
    """Return the larger one of two numbers; None if which one that is depends on sizes."""
    for x, y in ((first, second), (second, first)):
        if (low := lower_bound(x - y)) is not None and low >= 0:
            return x
    return None


def parts_of(term: Term, joined: int, window: Part | None) -> list[tuple[Term | None, Part]] | None:
    """Return a term's inputs, and what a window along the axis on which they are joined takes of each.

    Args:
        term: the term.
        joined: the axis; −1 if they are not joined.
        window: the first coordinate, how many are taken, and the step; None if all are.

    Returns:
        The inputs of which something is taken, in the order of the result; None if that is not the same for all sizes.
    """
    parts = list[tuple[Term | None, Part]]()
    at: Size = 0
    for term_input in term.inputs:
        size: Size = 0 if joined < 0 or term_input is None else term_input.sizes[joined]
        part = (0, size, 1) if window is None else _within(window, at, size)
        if part is None:
            return None
        at = at + size
        if window is None or part[1] != 0:
            parts.append((term_input, part))
    if window is not None and window[2] < 0:
        parts.reverse()
    # What takes nothing takes nothing of the first.
    return parts or [(term.inputs[0], (0, 0, 1))]
