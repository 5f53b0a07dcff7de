"""NumPy's pad of traced arrays: fills, and slices of what there is."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anydml.tracing.refusing import broken, refused
from anydml.tracing.shaping import broadcast, cut, filled, joined, reshaped
from anydml.tracing.trace import TracedArray

MODES = ("edge", "reflect", "symmetric", "wrap")
"""Modes in which every element stands already in the array."""


def pad(x: TracedArray, pad_width: Any, mode: Any = "constant", **arguments: Any) -> TracedArray:
    """As NumPy's, in the modes that compute nothing.

    Raises:
        FuseError: the mode computes, or arguments do not fit.
    """
    counts = _pairs(pad_width, x.ndim)
    if min(map(min, counts), default=0) < 0:
        raise broken("index can't contain negative values")
    if mode == "constant":
        given = arguments.pop("constant_values", 0)
        _no_more(arguments)
        values = np.broadcast_to(np.asarray(given), (x.ndim, 2)) if x.ndim else ()
        for axis, (before, after) in enumerate(counts):
            fronts = [constant(x, axis, n, values[axis][k]) for k, n in enumerate((before, after))]
            x = joined([fronts[0], x, fronts[1]], axis) if before or after else x
        return x
    if mode == "empty":
        _no_more(arguments)
        return pad(x, pad_width)
    if mode not in MODES:
        raise refused(f"numpy.pad in mode {mode!r}")
    if mode in ("reflect", "symmetric") and arguments.pop("reflect_type", "even") != "even":
        raise refused("numpy.pad with an odd reflection")
    _no_more(arguments)
    for axis, (before, after) in enumerate(counts):
        if before or after:
            if not x.shape[axis]:
                raise broken(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
            x = extended(x, axis, before, after, mode)
    return x


def extended(x: TracedArray, axis: int, before: int, after: int, mode: str) -> TracedArray:
    """An axis that is not empty, with elements of its own before and behind it; less of it where counts are negative.

    Args:
        x: what is extended.
        axis: 0 to rank − 1.
        before: elements before the first one.
        after: elements behind the last one.
        mode: one of `MODES`.
    """
    size = x.shape[axis]
    start, end = -before, size + after
    if mode == "edge" or size == 1:
        around = [again(cut(x, axis, 0, 1), axis, 0, min(end, 0) - start)]
        around.append(again(cut(x, axis, size - 1, 1), axis, 0, end - max(start, size)))
    else:
        period = x
        count = {"symmetric": size, "reflect": size - 2, "wrap": 0}[mode]
        if count:
            period = joined([x, cut(x, axis, count - (mode == "symmetric"), count, -1)], axis)
        around = [again(period, axis, a, b - a) for a, b in ((start, min(end, 0)), (max(start, size), end))]
    low, high = max(start, 0), min(end, size)
    return joined([around[0], cut(x, axis, low, high - low) if high > low else cut(x, axis, 0, 0), around[1]], axis)


def again(x: TracedArray, axis: int, start: int, count: int) -> TracedArray:
    """`count` elements of an axis that begins anew at its end, from `start` on; none where the count is negative."""
    if count <= 0:
        return cut(x, axis, 0, 0)
    size = x.shape[axis]
    start %= size
    first = min(count, size - start) if start else 0
    whole, rest = divmod(count - first, size)
    parts = [cut(x, axis, start, first)] if first else []
    if whole:
        apart = reshaped(x, (*x.shape[:axis], 1, *x.shape[axis:]))
        repeated = broadcast(apart, (*x.shape[:axis], whole, *x.shape[axis:]))
        parts.append(reshaped(repeated, (*x.shape[:axis], whole * size, *x.shape[axis + 1 :])))
    if rest:
        parts.append(cut(x, axis, 0, rest))
    return joined(parts, axis)


def constant(x: TracedArray, axis: int, count: int, number: Any) -> TracedArray:
    """`count` elements that are all one number along an axis, and as many as x has along the others."""
    return filled(x, (*x.shape[:axis], count, *x.shape[axis + 1 :]), None, number) if count else cut(x, axis, 0, 0)


def _pairs(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    """Counts before and after, one pair an axis."""
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * rank
        for axis, width in pad_width.items():
            pairs[range(rank)[axis]] = (width, width) if isinstance(width, int) else tuple(width)
        return [(operator.index(before), operator.index(after)) for before, after in pairs]
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise broken("`pad_width` must be of integral type.")
    return [(int(before), int(after)) for before, after in np.broadcast_to(widths, (rank, 2))] if rank else []


def _no_more(arguments: dict[str, Any]) -> None:
    if arguments:
        raise broken(f"unsupported keyword arguments {[*arguments]}")
