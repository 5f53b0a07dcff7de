"""PyTorch's functions that join, split and pad traced tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.tracing import numpy_joins, shaping
from anydml.tracing.numpy_axes import expand_dims, raised
from anydml.tracing.padding import constant, extended
from anydml.tracing.refusing import broken, refused
from anydml.tracing.torch_axes import dimension
from anydml.tracing.trace import Trace, TracedArray


def cat(trace: Trace, tensors: Any, dim: int = 0) -> TracedArray:
    """As torch.cat: tensors of shape (0,) join anything."""
    parts = [*map(trace.array, tensors)]
    others = [part for part in parts if part.shape != (0,)] or parts
    if any(not part.ndim for part in parts):
        raise broken("tensors without dimensions cannot be joined")
    found = parts if all(part.ndim == 1 for part in others) else others
    return shaping.joined(found, operator.index(dim))


def stack(trace: Trace, tensors: Any, dim: int = 0) -> TracedArray:
    """As torch.stack."""
    parts = [*map(trace.array, tensors)]
    if len({part.shape for part in parts}) != 1:
        raise broken("stack takes tensors of one shape")
    place = operator.index(dim)
    place += (parts[0].ndim + 1) * (place < 0)
    return shaping.joined([expand_dims(part, place) for part in parts], place)


def hstack(trace: Trace, tensors: Any) -> TracedArray:
    """As torch.hstack."""
    parts = [raised(trace.array(tensor), 1) for tensor in tensors]
    return cat(trace, parts, 0 if parts and parts[0].ndim == 1 else 1)


def vstack(trace: Trace, tensors: Any) -> TracedArray:
    """As torch.vstack."""
    return cat(trace, [raised(trace.array(tensor), 2) for tensor in tensors], 0)


def dstack(trace: Trace, tensors: Any) -> TracedArray:
    """As torch.dstack."""
    return cat(trace, [raised(trace.array(tensor), 3) for tensor in tensors], 2)


def column_stack(trace: Trace, tensors: Any) -> TracedArray:
    """As torch.column_stack."""
    parts = [trace.array(tensor) for tensor in tensors]
    return hstack(trace, [shaping.reshaped(part, (part.count, 1)) if part.ndim < 2 else part for part in parts])


def chunk(x: TracedArray, chunks: int, dim: int = 0) -> tuple[TracedArray, ...]:
    """As torch.chunk: as many parts as there are of the size that as many would take."""
    count, place = operator.index(chunks), dimension(x, dim)
    if count <= 0:
        raise broken(f"chunks is {count}, but must be at least 1")
    size = x.shape[place]
    return _parts(x, place, [0] * count) if not size else split(x, -(-size // count), dim)


def split(x: TracedArray, split_size_or_sections: Any = None, dim: int = 0, **named: Any) -> tuple[TracedArray, ...]:
    """As torch.split and torch.split_with_sizes."""
    wanted = split_size_or_sections
    if wanted is None:
        wanted = named.pop("split_size", named.pop("split_sizes", None))
    place = dimension(x, dim)
    whole = x.shape[place]
    if not isinstance(wanted, (list, tuple)):
        size = operator.index(wanted)
        if size < 0 or (whole and not size):
            raise broken(f"parts of {size} elements")
        parts = [min(size, whole - start) for start in range(0, whole, size or 1)] or [0]
        return _parts(x, place, parts)
    sizes = [*map(operator.index, wanted)]
    if min(sizes, default=0) < 0 or sum(sizes) != whole:
        raise broken(f"sizes {sizes} do not add up to {whole}")
    return _parts(x, place, sizes)


def tensor_split(x: TracedArray, indices_or_sections: Any = None, dim: int = 0, **named: Any) -> tuple[Any, ...]:
    """As torch.tensor_split; where to split is known."""
    wanted = indices_or_sections
    if wanted is None:
        wanted = named.get("indices", named.get("sections"))
    if isinstance(wanted, TracedArray):
        raise refused("tensor_split by a traced tensor", "shapes would depend on elements")
    known = wanted if isinstance(wanted, (list, tuple, int)) else np.asarray(wanted).tolist()
    return tuple(numpy_joins.array_split(x, known, dimension(x, dim)))


def split_at(axis: int) -> Callable[..., Any]:
    """torch.hsplit, vsplit and dsplit."""

    def given(trace: Trace, input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
        x = trace.array(input)
        return tuple(numpy_joins.split(x, indices_or_sections, 0 if axis == 1 and x.ndim == 1 else axis))

    return given


def unbind(x: TracedArray, dim: int = 0) -> tuple[TracedArray, ...]:
    """As torch.unbind."""
    place = dimension(x, dim)
    rest = (*x.shape[:place], *x.shape[place + 1 :])
    return tuple(shaping.reshaped(shaping.cut(x, place, k, 1), rest) for k in range(x.shape[place]))


def pad(x: TracedArray, pad: Sequence[int], mode: str = "constant", value: Any = None) -> TracedArray:
    """As torch.nn.functional.pad: pairs of counts for the last dimension, then those before; negative ones crop."""
    counts = [*map(operator.index, pad)]
    if len(counts) % 2 or len(counts) > 2 * x.ndim:
        raise broken(f"pad has {len(counts)} counts for {x!r}: two for each dimension, from the last one on")
    pairs = {x.ndim - 1 - k: (counts[2 * k], counts[2 * k + 1]) for k in range(len(counts) // 2)}
    for axis, (before, after) in pairs.items():
        size = x.shape[axis]
        if size + before + after < 0:
            raise broken(f"pad {counts} leaves less than nothing of dimension {axis} of {x!r}")
        if mode != "constant":
            x = _extended(x, axis, before, after, mode)
            continue
        start, end = max(-before, 0), size - max(-after, 0)
        x = shaping.cut(x, axis, start if end > start else 0, max(end - start, 0))
        fronts = [constant(x, axis, max(n, 0), 0 if value is None else value) for n in (before, after)]
        if before > 0 or after > 0:
            x = shaping.joined([fronts[0], x, fronts[1]], axis)
    return x


_MODES = {"replicate": "edge", "reflect": "reflect", "circular": "wrap"}
"""What NumPy calls modes of PyTorch's."""


def _extended(x: TracedArray, axis: int, before: int, after: int, mode: str) -> TracedArray:
    """An axis with elements of its own around it, where PyTorch has the mode and allows so many."""
    if mode not in _MODES:
        raise refused(f"pad in mode {mode!r}")
    if mode == "circular" and min(before, after) < 0:
        # What is left of the dimension goes round.
        left = x.shape[axis] + min(before, 0) + min(after, 0)
        x = shaping.cut(x, axis, max(-before, 0), max(left, 0))
        before, after = max(before, 0), max(after, 0)
    size, most = x.shape[axis], max(before, after)
    if not before and not after:
        return x
    if not size or most > {"replicate": most, "reflect": size - 1, "circular": size}[mode]:
        raise broken(f"pad of {before} and {after} in mode {mode!r} around {size} elements")
    return extended(x, axis, before, after, _MODES[mode])


def _parts(x: TracedArray, axis: int, sizes: Sequence[int]) -> tuple[TracedArray, ...]:
    parts, start = [], 0
    for size in sizes:
        parts.append(shaping.cut(x, axis, start if size else 0, size))
        start += size
    return tuple(parts)
