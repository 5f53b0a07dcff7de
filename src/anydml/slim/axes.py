"""Axes on which a tensor is cut and transposed: runs split where shapes have axes, and axes of 1 among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.slim.parts import Run


def split(runs: Sequence[Run], bounds: Sequence[int], along: Callable[[Run], int]) -> list[Run]:
    """Runs cut where axes begin, by the steps of their tensor or those of the source."""
    found: list[Run] = []
    for run in runs:
        rest = run
        # From the inside out.
        inner: list[Run] = []
        for bound in reversed(bounds):
            unit = along(rest)
            if unit < bound < unit * rest.size and bound % unit == 0 and rest.size % (bound // unit) == 0:
                size = bound // unit
                inner.append(Run(size, rest.step, rest.stride))
                rest = Run(rest.size // size, rest.step * size, rest.stride * size)
        found += [rest, *reversed(inner)]
    return found


def with_ones(
    axes: list[int],
    taken: list[tuple[int, int, int]],
    perm: list[int],
    source: Sequence[int],
    sizes: Sequence[int],
) -> tuple[list[int], list[tuple[int, int, int]], list[int]] | None:
    """Axes with the source's own ones among them, if that is its shape: then it needs no other."""
    if [size for size in source if size != 1] != [size for size in axes if size != 1] or 1 not in source:
        return None
    own = [k for k, size in enumerate(axes) if size != 1]
    if len(own) != len(axes):
        return None
    place = [k for k, size in enumerate(source) if size != 1]
    ones = [k for k, size in enumerate(source) if size == 1]
    new_taken = [(0, 1, 1)] * len(source)
    for k, at in zip(own, place, strict=True):
        new_taken[at] = taken[k]
    moved = [place[k] for k in perm]
    results = [new_taken[k][1] for k in moved]
    order: list[int] = []
    if len(sizes) == len(source):
        left, free = iter(moved), iter(ones)
        want = iter(results)
        waiting = next(want, None)
        for size in sizes:
            if size == waiting:
                order.append(next(left))
                waiting = next(want, None)
            elif size == 1 and (one := next(free, None)) is not None:
                order.append(one)
    if len(order) != len(source):
        order = [*ones, *moved]
    return [*source], new_taken, order


def with_ones_of(sizes: Sequence[int], taken: Sequence[tuple[int, int, int]], perm: Sequence[int]) -> list[int] | None:
    """The order of axes for a shape that has more of size 1, which then stand first; None where it is another shape."""
    ones = len(sizes) - len(perm)
    left, order = [*perm], list[int]()
    for size in sizes:
        if left and taken[left[0]][1] == size:
            order.append(ones + left.pop(0))
        elif size == 1:
            order.append(len(order) + len(left) - len(perm))
        else:
            return None
    return order if not left and ones > 0 else None
