"""Windows of slices, translated between the axes of a value and the factors of its source."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.proving.orders import REPEATED_FACTOR, Entry, align
from anydml.proving.sizes import Size, Sizes, exact_quotient, lower_bound, product
from anydml.proving.terms import Term

Window = tuple[int, Size, Size, int]
"""A window: an axis, the first selected coordinate, the number of coordinates, and the step."""

Part = tuple[Size, Size, int]
"""The window along one axis: the first selected coordinate, the number of coordinates, and the step."""


def by_factor(axes: list[list[Entry]], windows: Sequence[Window]) -> dict[int, Part] | None:
    """Return windows by factors of the source, and shrink these in `axes`; None if a window cuts through a factor."""
    parts = dict[int, Part]()
    for axis, first, count, step in windows:
        entries = [(k, size) for k, size in axes[axis] if size != 1]
        if not entries:
            return None
        (k, _), inner_count = entries[0], product(size for _, size in entries[1:])
        start, length = exact_quotient(first, inner_count), exact_quotient(count, inner_count)
        if start is None or length is None or (step != 1 and len(entries) > 1):
            return None
        if k != REPEATED_FACTOR:
            parts[k] = start, length, step
        axes[axis] = [(k, length), *entries[1:]]
    return parts


def outward(source: Term, factors: Sizes, windows: dict[int, Part]) -> tuple[Sizes, dict[int, Part]] | None:
    """Combine windows of a slice with the slice's own to windows of its source, by factors; None if they do not fit."""
    split, (base,) = align(factors, source.sizes), source.inputs
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


def _section_of_part(window: Part, at: Size, size: Size) -> Part | None:
    """Return the section of a window in one part of an axis; None if it is not the same for all sizes.

    Args:
        window: the window along the axis.
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
    """Return the larger of two numbers; None if it depends on sizes which one is larger."""
    for x, y in ((first, second), (second, first)):
        if (low := lower_bound(x - y)) is not None and low >= 0:
            return x
    return None


def parts_of(term: Term, joined: int, window: Part | None) -> list[tuple[Term | None, Part]] | None:
    """Return the inputs of a join, and the section of a window along the joined axis in each of them.

    Args:
        term: the term.
        joined: the joined axis; −1 for a term that joins no inputs.
        window: the window along this axis; None for the whole axis.

    Returns:
        The inputs in the window, in the order of the result; None if they are not the same for all sizes.
    """
    parts = list[tuple[Term | None, Part]]()
    at: Size = 0
    for term_input in term.inputs:
        size: Size = 0 if joined < 0 or term_input is None else term_input.sizes[joined]
        part = (0, size, 1) if window is None else _section_of_part(window, at, size)
        if part is None:
            return None
        at = at + size
        if window is None or part[1] != 0:
            parts.append((term_input, part))
    if window is not None and window[2] < 0:
        parts.reverse()
    # An empty window is an empty section of the first input.
    return parts or [(term.inputs[0], (0, 0, 1))]
