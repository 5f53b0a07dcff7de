"""Axes for slicing and transposing: digits are split at the axes of shapes, and axes of size 1 are inserted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.slim.pieces import Digit, Window


def split_digits(digits: Sequence[Digit], bounds: Sequence[int], distance: Callable[[Digit], int]) -> list[Digit]:
    """Split digits at the strides of a shape's axes, by the digits' steps or strides."""
    all_digits: list[Digit] = []
    for digit in digits:
        outer = digit
        inner: list[Digit] = []
        for bound in reversed(bounds):
            unit = distance(outer)
            if unit < bound < unit * outer.size and bound % unit == 0 and outer.size % (bound // unit) == 0:
                size = bound // unit
                inner.append(Digit(size, outer.step, outer.stride))
                outer = Digit(outer.size // size, outer.step * size, outer.stride * size)
        all_digits += [outer, *reversed(inner)]
    return all_digits


def with_ones(
    axes: list[int], window: Window, perm: list[int], source: Sequence[int], sizes: Sequence[int]
) -> tuple[list[int], Window, list[int]]:
    """Insert axes of size 1 if that saves a Reshape before or after a Slice and a Transpose.

    Args:
        axes: the shape that is sliced, without axes of size 1.
        window: the window of the Slice.
        perm: the permutation of the Transpose.
        source: the shape of the tensor that is reshaped to `axes`.
        sizes: the shape to which the result is reshaped.

    Returns:
        The shape, window and permutation, unchanged if no axis helps.
    """
    taken_sizes = [window[axis][1] for axis in perm]
    new_axes = len(sizes) - len(perm)
    if 1 in source and [size for size in source if size != 1] == axes:
        unit_axes = [axis for axis, size in enumerate(source) if size == 1]
        places = [axis for axis, size in enumerate(source) if size != 1]
        moved_places = [places[axis] for axis in perm]
        order = _interleave(sizes, moved_places, taken_sizes, unit_axes) or [*unit_axes, *moved_places]
        windows = [(0, size, 1) for size in source]
        for axis, part in zip(places, window, strict=True):
            windows[axis] = part
        return [*source], windows, order
    if new_axes > 0 and tuple(axes) != tuple(source):
        interleaved = _interleave(sizes, [new_axes + axis for axis in perm], taken_sizes, [*range(new_axes)])
        if interleaved is not None:
            return [1] * new_axes + axes, [(0, 1, 1)] * new_axes + window, interleaved
    return axes, window, perm


def _interleave(
    sizes: Sequence[int], axes: Sequence[int], taken_sizes: Sequence[int], unit_axes: list[int]
) -> list[int] | None:
    """Insert axes of size 1 among axes so that the shape is `sizes`; None if that is impossible."""
    if len(sizes) != len(axes) + len(unit_axes):
        return None
    remaining, free, order = [*zip(axes, taken_sizes, strict=True)], [*unit_axes], []
    for size in sizes:
        if remaining and remaining[0][1] == size:
            order.append(remaining.pop(0)[0])
        elif size == 1 and free:
            order.append(free.pop(0))
    return order if len(order) == len(sizes) else None
