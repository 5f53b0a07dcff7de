"""Strides in coordinates instead of bytes: how far each axis of a tensor is stepped along."""

from __future__ import annotations

from collections.abc import Sequence


class CoordinateSteps:
    """``Σ count · (one step along axis)``: a stride or an offset of a tensor whose strides are not known.

    Attributes:
        terms: axes, each once, and counts, which may be open sizes: nothing is compared.

    Examples:
        >>> from anydml.moves.coordinate_strides import units
        >>> (units(3)[0] * 2 + units(3)[2]).terms
        {0: 2, 2: 1}
    """

    __slots__ = ("terms",)

    def __init__(self, terms: dict[int, int]) -> None:
        self.terms = terms

    def __add__(self, other: CoordinateSteps | int) -> CoordinateSteps:
        if isinstance(other, CoordinateSteps):
            terms = {**self.terms}
            for axis, count in other.terms.items():
                terms[axis] = terms[axis] + count if axis in terms else count
            return CoordinateSteps(terms)
        # An offset of 0 has no axes: `sum` begins with it.
        return self

    __radd__ = __add__

    def __mul__(self, by: int) -> CoordinateSteps:
        # No `__rmul__`: an open size on the left would be fixed to its value.
        return CoordinateSteps({axis: count * by for axis, count in self.terms.items()})


def units(rank: int) -> tuple[CoordinateSteps, ...]:
    """Return the strides of a tensor in coordinates."""
    return tuple([CoordinateSteps({axis: 1}) for axis in range(rank)])


def in_bytes(steps: CoordinateSteps | int, strides: Sequence[int]) -> int:
    """Convert a stride or an offset to bytes, by the strides of the axes."""
    return (
        sum([count * strides[axis] for axis, count in steps.terms.items()])
        if isinstance(steps, CoordinateSteps)
        else steps
    )
