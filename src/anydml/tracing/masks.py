"""Selection by masks, and triangles of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.moves.move import Access, Lookup, Move, unless
from anydml.tensor import Layout
from anydml.tracing import axes, making, picks, placing, repeating, shaping
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray

_MASKS = frozenset(map(np.dtype, ("bool", "int8", "uint8")))


def chosen(mask: TracedArray, x: TracedArray, y: TracedArray) -> TracedArray:
    """Select elements of x where a mask is not 0, else of y; the three are broadcast.

    Raises:
        FuseError: the mask's elements are not bytes, or the dtypes of x and y differ.
    """
    if mask.element not in _MASKS:
        raise refused(f"{mask!r} as a mask", "pass the result of comparing it with 0")
    if x.element != y.element:
        raise refused(f"{x!r} and {y!r} in one array", "convert them to one dtype first")
    shape = shaping.common_shape([mask.shape, x.shape, y.shape])
    by, x, y = (shaping.broadcast(each, shape) for each in (mask, x, y))

    def lower(inputs: Sequence[Layout], target: Layout) -> Sequence[Move]:
        source = Access(0, 0, inputs[0].strides, (unless(1, inputs[1].strides),))
        return (Move(shape, Access(2, 0, target.strides), source, x.itemsize),)

    return x.made(x.trace.composer.overwritten(x.value, [y.value, by.value], lower, placing.REASON))


def where(mask: TracedArray, x: Any = None, y: Any = None) -> TracedArray:
    """Like numpy.where and torch.where, for two arrays of one dtype, or an array and a number that fits its dtype."""
    if x is None or y is None:
        raise refused("where of a condition alone", "shapes would depend on elements")
    first, second = (_held(mask, each, other) for each, other in ((x, y), (y, x)))
    return chosen(mask, first, second)


def _held(mask: TracedArray, given: Any, other: Any) -> TracedArray:
    """Convert a number to an array of another one's dtype, which must be able to hold it."""
    dtype = getattr(other, "element", getattr(other, "dtype", None))
    is_number = type(given) in (bool, int, float, complex) and isinstance(dtype, np.dtype)
    if is_number and np.result_type(dtype, given) == dtype:
        return mask.trace.array(np.asarray(given, dtype))
    return mask.trace.array(given)


def masked_fill(x: TracedArray, mask: TracedArray, value: Any) -> TracedArray:
    """Like torch.masked_fill."""
    return chosen(mask, placing.number(x, value), x)


def masked_scatter(x: TracedArray, mask: Any, source: TracedArray) -> TracedArray:
    """Like torch.masked_scatter, with a constant mask."""
    if isinstance(mask, TracedArray):
        raise refused("masked_scatter by a traced mask", "the places of elements would depend on elements")
    if source.element != x.element:
        raise refused(f"{source!r} put into {x!r}", "convert them to one dtype first")
    known = picks.known_array(mask)
    shape = shaping.common_shape([x.shape, known.shape])
    whole, at = shaping.broadcast(x, shape), np.flatnonzero(np.broadcast_to(known, shape))
    if len(at) > source.count:
        raise broken(f"the mask selects {len(at)} elements, but source has {source.count}")
    table = np.arange(whole.count)
    table[at] = np.arange(len(at)) + whole.count
    both = shaping.joined([axes.ravel(whole), axes.ravel(source)], 0)
    return shaping.reshaped(shaping.picked(both, table, 0), shape)


def index_put(x: TracedArray, indices: Any, values: TracedArray, accumulate: bool = False) -> TracedArray:
    """Like torch.index_put."""
    if accumulate:
        raise refused("index_put with accumulate")
    found: list[Any] = []
    for each in indices:
        known = each if isinstance(each, TracedArray) else picks.known_array(each)
        if isinstance(known, TracedArray) and known.element in (np.bool_, np.uint8):
            if values.count != 1 or len(indices) != 1:
                raise refused("index_put by a traced mask", "the places of elements would depend on elements")
            mask = shaping.reshaped(known, (*known.shape, *(1,) * (x.ndim - known.ndim)))
            return chosen(mask, shaping.reshaped(values, ()), x)
        is_mask = isinstance(known, np.ndarray) and known.dtype in (np.bool_, np.uint8)
        found += known.nonzero() if is_mask else [known]
    return placing.put_at(x, dict(enumerate(found)), values)


def triangle(x: TracedArray, k: int = 0, is_upper: bool = False) -> TracedArray:
    """Like numpy.tril and triu, and PyTorch's: zeros on one side of a diagonal."""
    if x.ndim == 1:
        x = shaping.broadcast(x, (x.shape[0], x.shape[0]))
    if x.ndim < 2:
        raise broken(f"a triangle of {x!r}: it must have at least two dimensions")
    rows, columns = x.shape[-2:]
    # One byte per diagonal, from the lower left on: 0 on diagonals that become zero.
    diagonals = np.arange(1 - rows, columns)
    kept = x.trace.array((diagonals >= k if is_upper else diagonals <= k).astype(np.uint8))
    zero = shaping.broadcast(making.filled(x, ()), x.shape)

    def lower(inputs: Sequence[Layout], target: Layout) -> Sequence[Move]:
        (along,) = inputs[1].strides
        strides = (*(0,) * (x.ndim - 2), -along, along)
        mask = Lookup(1, "uint8", (rows - 1) * along, strides, 1, 0, "skip")
        return (Move(x.shape, Access(2, 0, target.strides), Access(0, 0, inputs[0].strides, (mask,)), x.itemsize),)

    if not x.count:
        return x
    return x.made(x.trace.composer.overwritten(x.value, [zero.value, kept.value], lower, placing.REASON))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> TracedArray:
    """Like numpy.select."""
    if len(condlist) != len(choicelist) or not condlist:
        raise broken("list of cases must be same length as list of conditions, and not empty")
    every = [*condlist, *choicelist, default]
    trace = next(each.trace for each in every if isinstance(each, TracedArray))
    conditions = [trace.array(each) for each in condlist]
    if any(each.element.kind != "b" for each in conditions):
        raise broken("conditions must be arrays of bools")
    kept = next((each for each in choicelist if hasattr(each, "dtype")), default)
    choices = [_held(conditions[0], each, kept) for each in (*choicelist, default)]
    found = choices.pop()
    for condition, choice in [*zip(conditions, choices, strict=True)][::-1]:
        found = chosen(condition, choice, found)
    shape = shaping.common_shape([each.shape for each in (*conditions, *choices, found)])
    return shaping.broadcast(found, shape)


def choose(a: Any, choices: Any, mode: str = "raise") -> TracedArray:
    """Like numpy.choose."""
    every = [a, *choices] if isinstance(choices, (list, tuple)) else [a, choices]
    trace = next(each.trace for each in every if isinstance(each, TracedArray))
    arrays = repeating.broadcast_arrays([trace.array(each) for each in choices])
    if mode not in ("raise", "wrap", "clip"):
        raise broken(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if isinstance(a, TracedArray):
        if mode != "raise":
            raise broken(f"traced choices in mode {mode!r}: only 'raise' is supported")
        by = picks.from_zero(a)
    else:
        known = np.asarray(a)
        clipped = known % len(arrays) if mode == "wrap" else np.clip(known, 0, len(arrays) - 1)
        by = picks.from_zero(known) if mode == "raise" else clipped
    shape = shaping.common_shape([by.shape, arrays[0].shape])
    parts = [axes.expand_dims(shaping.broadcast(each, shape), 0) for each in arrays]
    index = by if isinstance(by, TracedArray) else trace.array(shaping.known_indices(by, len(arrays)))
    index = axes.expand_dims(shaping.broadcast(index, shape), 0)
    outside = "refuse" if isinstance(a, TracedArray) else "clamp"
    return axes.squeeze(shaping.along(shaping.joined(parts, 0), index, 0, outside), 0)  # type: ignore[arg-type]
