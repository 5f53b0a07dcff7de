"""Words that pad arrays, by constants or by elements of the array."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from anydml.moves.open_numbers import larger
from anydml.tracing.array_verbs import cut, fill, join, shape_with
from anydml.tracing.constants import is_list, refuse_traced_numbers, whole_numbers
from anydml.tracing.join_split import stack, tile
from anydml.tracing.open_sizes import is_open
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.trace import TracedArray

MODES = ("edge", "reflect", "symmetric", "wrap")
"""Modes that copy elements of the array itself."""

_TORCH_MODES = {"replicate": "edge", "reflect": "reflect", "circular": "wrap"}
"""NumPy's names of PyTorch's modes."""


def pad(
    x: TracedArray,
    pad_width: Any,
    mode: Any = "constant",
    constant_values: Any = None,
    reflect_type: Any = None,
    end_values: Any = None,
    stat_length: Any = None,
) -> TracedArray:
    """Pad by counts of each axis, in the modes that compute nothing.

    Raises:
        FuseError: the mode computes, or arguments do not fit.
    """
    counts = _count_pairs(pad_width, x.ndim)
    if mode not in ("constant", "empty", *MODES):
        raise refusal(f"numpy.pad in mode {mode!r}")
    if reflect_type == "odd" and mode in ("reflect", "symmetric"):
        raise refusal("numpy.pad with an odd reflection")
    unused_reflect_type = None if mode in ("reflect", "symmetric") and reflect_type == "even" else reflect_type
    unused_constants = None if mode == "constant" else constant_values
    _check_unused(mode, unused_reflect_type, unused_constants, end_values, stat_length)
    # NumPy fills even untyped bytes with its own zeros, but not with Python's.
    values, are_same = [(np.int64(0),) * 2] * x.ndim, True
    if constant_values is not None:
        constants = np.asarray(constant_values)
        value_pairs = np.broadcast_to(constants, (x.ndim, 2))
        # As in NumPy, which casts its own numbers, but not Python's.
        values, are_same = (
            value_pairs.tolist() if constants.size > 2 else [*value_pairs],
            bool((value_pairs == value_pairs[:1, :1]).all()),
        )
    pairs = [*enumerate(counts)]
    if mode not in MODES and are_same:
        # From the last axis on, so that fills of outer axes are long runs; values that differ need NumPy's order.
        pairs.reverse()
    for axis, (before, after) in pairs:
        if type(before) is int and type(after) is int and not before and not after:
            continue
        if mode not in MODES:
            x = pad_with_numbers(x, axis, before, after, values[axis])
        elif not x.shape[axis]:
            raise fuse_error(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        else:
            x = pad_with_elements(x, axis, before, after, mode)
    return x


def _count_pairs(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    """Return one pair of counts, before and after, per axis."""
    if isinstance(pad_width, dict):
        pairs: list[Any] = [(0, 0)] * rank
        for axis, width in pad_width.items():
            pairs[range(rank)[axis]] = width
    else:
        refuse_traced_numbers(pad_width)
        widths = pad_width.tolist() if isinstance(pad_width, np.ndarray) else pad_width
        # One pair for all axes, or one per axis.
        pairs = [*widths] if is_list(widths) and any(map(is_list, widths)) else [widths]
        pairs = pairs * rank if len(pairs) == 1 else pairs
    counts = []
    for pair in pairs:
        numbers = whole_numbers(pair)
        if not 1 <= len(numbers) <= 2:
            break
        counts.append((numbers[0], numbers[-1]))
    if not len(counts) == len(pairs) == rank:
        raise fuse_error(
            f"pad_width is {pad_width}, but must have two counts for each of {rank} axes, or for all of them"
        )
    for before, after in counts:
        if before < 0 or after < 0:
            raise fuse_error("index can't contain negative values")
    return counts


def _check_unused(mode: str, *arguments: Any) -> None:
    """Check that arguments of other modes are None."""
    for argument in arguments:
        if argument is not None:
            raise fuse_error(f"unsupported keyword arguments for mode {mode!r}")


def pad_like_torch(x: TracedArray, pad: Sequence[int], mode: str = "constant", value: Any = None) -> TracedArray:
    """Pad by pairs of counts from the last dimension on, in PyTorch's modes; negative counts crop."""
    counts = whole_numbers(pad)
    if len(counts) % 2 or len(counts) > 2 * x.ndim:
        raise fuse_error(
            f"pad has {len(counts)} counts for {x!r}: it must have two per dimension, from the last one on"
        )
    if mode not in ("constant", *_TORCH_MODES):
        raise refusal(f"pad in mode {mode!r}")
    if mode != "constant" and not (2 <= len(counts) <= 6 and 1 <= x.ndim - len(counts) // 2 <= 2):
        rule = "two for each of 1 to 3 last dimensions, before which there are 1 or 2 others"
        raise fuse_error(f"pad has {len(counts)} counts in mode {mode!r} for {x!r}: it must have {rule}")
    for k, (before, after) in enumerate(zip(counts[::2], counts[1::2], strict=True)):
        axis = x.ndim - 1 - k
        size = cut_size = x.shape[axis] + min(before, 0) + min(after, 0)
        if cut_size < 0:
            raise fuse_error(f"pad {counts} crops more than dimension {axis} of {x!r}")
        if mode in ("constant", "circular"):
            x = cut(x, axis, max(-before, 0), cut_size)
            before, after = max(before, 0), max(after, 0)  # noqa: PLW2901
        if mode == "constant":
            x = pad_with_numbers(x, axis, before, after, [value or 0] * 2)
        elif before or after:
            size, width = x.shape[axis], max(before, after)
            if not size or width > {"replicate": width, "reflect": size - 1, "circular": size}[mode]:
                raise fuse_error(f"pad of {before} and {after} in mode {mode!r} around {size} elements")
            x = pad_with_elements(x, axis, before, after, _TORCH_MODES[mode])
    return x


def pad_sequence(
    sequences: Sequence[TracedArray],
    batch_first: bool = False,
    padding_value: Any = 0.0,
    padding_side: str = "right",
) -> TracedArray:
    """Pad sequences to the length of the longest, and stack them, as PyTorch does.

    Raises:
        FuseError: there are no sequences, one has no dimensions, they do not fit, or there is no such side.
    """
    if padding_side not in ("left", "right"):
        raise fuse_error(f"padding_side is {padding_side!r}, but must be 'left' or 'right'")
    if not sequences or not all(part.ndim for part in sequences):
        raise fuse_error("pad_sequence takes at least one tensor, and each must have at least one dimension")
    longest = reduce(larger, [part.shape[0] for part in sequences])
    rows = []
    for part in sequences:
        missing = longest - part.shape[0]
        before, after = (missing, 0) if padding_side == "left" else (0, missing)
        rows.append(pad_with_numbers(part, 0, before, after, [float(padding_value)] * 2))
    return stack(rows, 0 if batch_first else 1)


def pad_with_numbers(x: TracedArray, axis: int, before: int, after: int, numbers: Sequence[Any]) -> TracedArray:
    """Pad an axis with one number before it, and another number after it."""
    parts = [x]
    if is_open((before,)) or before:
        parts.insert(0, fill(x, shape_with(x, axis, before), numbers[0]))
    if is_open((after,)) or after:
        parts.append(fill(x, shape_with(x, axis, after), numbers[1]))
    return join(parts, axis)


def pad_with_elements(x: TracedArray, axis: int, before: int, after: int, mode: str) -> TracedArray:
    """Pad a non-empty axis with its own elements; negative counts crop.

    Args:
        x: the array.
        axis: 0 to rank − 1.
        before: elements before the first one.
        after: elements after the last one.
        mode: a mode in `MODES`.
    """
    size = x.shape[axis]
    start, end = -before, size + after
    if mode == "edge" or size == 1:
        sides = [wrapped_slice(cut(x, axis, 0, 1), axis, 0, min(end, 0) - start)]
        sides.append(wrapped_slice(cut(x, axis, size - 1, 1), axis, 0, end - max(start, size)))
    elif min(before, after) >= 0 and max(before, after) <= size - (mode == "reflect"):
        if mode == "wrap":
            sides = [cut(x, axis, size - before, before), cut(x, axis, 0, after)]
        else:
            inside = int(mode == "reflect")
            sides = [cut(x, axis, before - 1 + inside, before, -1), cut(x, axis, size - 1 - inside, after, -1)]
    else:
        period = x
        count = {"symmetric": size, "reflect": size - 2, "wrap": 0}[mode]
        if count:
            period = join([x, cut(x, axis, count - (mode == "symmetric"), count, -1)], axis)
        sides = [wrapped_slice(period, axis, a, b - a) for a, b in ((start, min(end, 0)), (max(start, size), end))]
    low, high = max(start, 0), min(end, size)
    return join([sides[0], cut(x, axis, low, high - low) if high > low else cut(x, axis, 0, 0), sides[1]], axis)


def wrapped_slice(x: TracedArray, axis: int, start: int, count: int) -> TracedArray:
    """Return `count` elements of an axis from `start` on, with wrap-around; none if the count is negative."""
    if count <= 0:
        return cut(x, axis, 0, 0)
    size = x.shape[axis]
    start %= size
    front_count = min(count, size - start) if start else 0
    repeats, tail = divmod(count - front_count, size)
    parts = [cut(x, axis, start, front_count)] if front_count else []
    if repeats:
        parts.append(tile(x, [repeats if k == axis else 1 for k in range(x.ndim)]))
    if tail:
        parts.append(cut(x, axis, 0, tail))
    return join(parts, axis)
