"""The order of elements in reshaped, transposed and repeated values, as factors whose sizes may be polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.proving.sizes import Size, Sizes, exact_quotient

REPEATED_FACTOR = -1
"""In place of a source's factor: elements are repeated."""

Entry = tuple[int, Size]
"""A factor of a result: the number of the source's factor, or `REPEATED_FACTOR`, and its size."""


class Order(NamedTuple):
    """The order of elements of a value that is reshaped, transposed and repeated.

    Attributes:
        factors: sizes whose product is the source's number of elements, from the slowest to the fastest.
        perm: for each factor of the result, the number of the source's factor, or `REPEATED_FACTOR`.
        repeats: sizes of the repeated factors, in order.
    """

    factors: Sizes
    perm: tuple[int, ...]
    repeats: Sizes = ()

    @classmethod
    def of(cls, factors: Sequence[Size], entries: Sequence[Entry]) -> Order:
        """Return the order of a result's factors with as few factors as possible."""
        runs: list[list[int]] = []
        sizes: list[Size] = []
        for k, size in entries:
            if size == 1:
                continue
            if runs and (
                runs[-1][-1] == k == REPEATED_FACTOR
                or (
                    k > runs[-1][-1] != REPEATED_FACTOR and all(factor == 1 for factor in factors[runs[-1][-1] + 1 : k])
                )
            ):
                runs[-1].append(k)
                sizes[-1] = sizes[-1] * size
            else:
                runs.append([k])
                sizes.append(size)
        order = sorted(
            (run for run in range(len(runs)) if runs[run][0] != REPEATED_FACTOR), key=lambda run: runs[run][0]
        )
        perm = tuple(
            REPEATED_FACTOR if runs[run][0] == REPEATED_FACTOR else order.index(run) for run in range(len(runs))
        )
        repeats = tuple(size for size, k in zip(sizes, perm, strict=True) if k == REPEATED_FACTOR)
        return cls(tuple(sizes[run] for run in order), perm, repeats)

    @property
    def is_plain(self) -> bool:
        """Whether the result has each element once, in the source's order."""
        return self.perm == tuple(range(len(self.perm)))

    def entries(self) -> list[Entry]:
        """Return the factors of the result."""
        remaining = iter(self.repeats)
        return [(k, next(remaining) if k == REPEATED_FACTOR else self.factors[k]) for k in self.perm]

    def along(self, shape: Sizes) -> tuple[Sizes, list[list[Entry]]] | None:
        """Split factors so that each size of a shape is a product of consecutive ones.

        Returns:
            The factors of the source, and those of the result by axis; None if they cannot be split for all sizes.
        """
        entries = self.entries()
        split = align([size for _, size in entries], shape)
        if split is None:
            return None
        parts, groups = split
        number_of_factor, factors = dict[tuple[int, int], int](), list[Size]()
        for k in range(len(self.factors)):
            position = self.perm.index(k)
            for part, size in enumerate(parts[position]):
                number_of_factor[position, part] = len(factors)
                factors.append(size)
        return tuple(factors), [
            [(number_of_factor.get(factor, REPEATED_FACTOR), parts[factor[0]][factor[1]]) for factor in group]
            for group in groups
        ]


def align(
    factors: Sequence[Size], shape: Sequence[Size]
) -> tuple[list[list[Size]], list[list[tuple[int, int]]]] | None:
    """Split factors so that each size of a shape is a product of consecutive ones.

    Returns:
        The parts of each factor, and for each axis of the shape the factors and parts that it consists of; None if they
        cannot be split for all sizes.
    """
    parts: list[list[Size]] = [[] for _ in factors]
    groups: list[list[tuple[int, int]]] = [[] for _ in shape]
    k = axis = 0
    factor_rest: Size = factors[0] if factors else 1
    axis_rest: Size = shape[0] if shape else 1
    while k < len(factors) and axis < len(shape):
        if factor_rest == 1:
            k += 1
            factor_rest = factors[k] if k < len(factors) else 1
            continue
        if axis_rest == 1:
            axis += 1
            axis_rest = shape[axis] if axis < len(shape) else 1
            continue
        for step in (axis_rest, factor_rest):
            next_factor, next_axis = exact_quotient(factor_rest, step), exact_quotient(axis_rest, step)
            if (step != 0 or factor_rest == axis_rest) and next_factor is not None and next_axis is not None:
                groups[axis].append((k, len(parts[k])))
                parts[k].append(step)
                factor_rest, axis_rest = next_factor, next_axis
                break
        else:
            return None
    ends = (factor_rest, *factors[k + 1 :], axis_rest, *shape[axis + 1 :])
    return (parts, groups) if all(size == 1 for size in ends) else None


def refine(first: Sequence[Size], second: Sequence[Size]) -> list[Size] | None:
    """Return the common refinement of two lists of factors with equal products; None if there is none."""
    split = align(first, second)
    return None if split is None else [size for factors in split[0] for size in factors]


def as_integers(sizes: Sequence[Size]) -> list[int] | None:
    """Return sizes as integers; None if one is symbolic."""
    integers = [size for size in sizes if isinstance(size, int)]
    return integers if len(integers) == len(sizes) else None
