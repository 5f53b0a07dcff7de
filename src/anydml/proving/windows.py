"""What slices take along axes, by the factors of what they are taken of."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.proving.orders import REPEATED, Entry, aligned
from anydml.proving.sizes import Size, Sizes, divided, product
from anydml.proving.terms import Term

Window = tuple[int, Size, Size, int]
"""An axis, the first coordinate that is taken, how many are, and the step."""


def by_factor(axes: list[list[Entry]], windows: Sequence[Window]) -> dict[int, tuple[Size, Size, int]] | None:
    """Return windows by the factors of a source, and set the sizes of these; None if they take no whole ones."""
    found = dict[int, tuple[Size, Size, int]]()
    for axis, first, count, step in windows:
        left = [(k, size) for k, size in axes[axis] if size != 1]
        if not left:
            return None
        (k, _), rest = left[0], product(size for _, size in left[1:])
        start, length = divided(first, rest), divided(count, rest)
        if start is None or length is None or (step != 1 and len(left) > 1):
            return None
        if k != REPEATED:
            found[k] = start, length, step
        axes[axis] = [(k, length), *left[1:]]
    return found


def outward(
    source: Term, factors: Sizes, windows: dict[int, tuple[Size, Size, int]]
) -> tuple[Sizes, dict[int, tuple[Size, Size, int]]] | None:
    """Return the factors of what a slice is of, with the slice's windows and others; None if they do not fit."""
    split, (base,) = aligned(factors, source.sizes), source.inputs
    if split is None or base is None or any(len(parts) != 1 for parts in split[0]):
        return None
    found, composed = [*factors], {**windows}
    for axis, first, _, step in source.detail:
        own = [k for k, _ in split[1][axis]]
        if len(own) != 1:
            return None
        found[own[0]] = base.sizes[axis]
        start, count, by = windows.get(own[0], (0, source.sizes[axis], 1))
        composed[own[0]] = first + start * step, count, by * step
    return tuple(found), composed
