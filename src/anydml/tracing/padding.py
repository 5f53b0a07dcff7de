"""NumPy's pad of traced arrays: fills, and slices of what there is."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anydml.tracing.refusing import broken, refused
from anydml.tracing.shaping import MOST_RUNS, cut, filled, joined, picked
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
            order = np.pad(np.arange(x.shape[axis]), (before, after), mode)
            x = picked(x, order, axis, MOST_RUNS)
    return x


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
