"""Assignments by a key, which return a new array, and conversion of nested lists to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.moves.open_numbers import are_same, is_one, is_zero, smaller
from anydml.moves.value import Value
from anydml.tracing.array_verbs import broadcast_part, cast, cut, reshape
from anydml.tracing.constants import arrays_of, check_torch_mask, is_list
from anydml.tracing.indexing import selected_box
from anydml.tracing.open_sizes import is_open
from anydml.tracing.putting import StridedCoordinates, choose_by_mask, put, put_at_indices
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.structure import leaves
from anydml.tracing.trace import TracedArray


def replaced(x: TracedArray, key: Any, value: Any) -> TracedArray:
    """Return x with the elements that a key selects replaced.

    Args:
        x: the array.
        key: a key as NumPy accepts between brackets.
        value: the new elements, which broadcast: an array of x's dtype, or constants.

    Raises:
        FuseError: the key or the elements do not fit, or the elements have another dtype.
    """
    part = cast(x, value) if isinstance(value, TracedArray) else _new_elements(x, value)
    if part.element != x.element:
        raise refusal(f"{part!r} assigned into {x!r}", "convert them to one dtype first")
    if isinstance(key, TracedArray) and key.element.kind == "b":
        if part.ndim:
            raise refusal(
                "an array assigned by a mask",
                "the places of elements would depend on elements: assign outside the fused function",
            )
        mask = reshape(key, (*key.shape, *(1,) * (x.ndim - key.ndim)))
        return choose_by_mask(mask, part, x)
    if x.INDEXES_LIKE_TORCH and not part.ndim:
        for bounds in key if isinstance(key, tuple) else (key,):
            check_torch_mask(bounds)
    starts, sizes, steps, shape, arrays = selected_box(x, key)
    while part.ndim > len(shape) and is_one(part.shape[0]):
        part = reshape(part, part.shape[1:])
    if arrays:
        if len(shape) != x.ndim or any(not _is_whole_axis(x, k, starts, sizes, steps) for k in range(x.ndim)):
            raise refusal("an assignment by index arrays beside other indices", "assign by arrays alone")
        axes = [axis for axis, _ in arrays]
        if axes != [*range(axes[0], axes[0] + len(axes))]:
            raise refusal("an assignment by index arrays that are not adjacent", "assign by adjacent ones")
        return put_at_indices(x, dict(arrays), part)
    fitted = reshape(broadcast_part(part, tuple(shape)), sizes)
    if all(type(step) is int and step == 1 for step in steps):
        return _with_box(x, fitted, starts, 0)
    return put(
        x, fitted, [StridedCoordinates(axis, *bounds) for axis, bounds in enumerate(zip(starts, steps, strict=True))]
    )


def _is_whole_axis(
    x: TracedArray, axis: int, starts: Sequence[Any], sizes: Sequence[Any], steps: Sequence[Any]
) -> bool:
    return is_zero(starts[axis]) and is_one(steps[axis]) and are_same(sizes[axis], x.shape[axis])


def _new_elements(x: TracedArray, value: Any) -> TracedArray:
    """Convert constants of any dtype, or a list that contains traced arrays, to a traced array."""
    if is_list(value) and any(isinstance(leaf, TracedArray) for leaf in leaves(value)):
        return array_of(x.trace, value)
    if x.INDEXES_LIKE_TORCH and isinstance(value, (int, float, complex, np.generic)):
        # In assignments, PyTorch converts numbers without a check, unlike in fills.
        import torch

        number = value.item() if isinstance(value, np.generic) else value
        try:
            value = torch.scalar_tensor(number, dtype=x.dtype, device="cpu")
        except (RuntimeError, TypeError) as error:
            raise fuse_error(f"{number} in a tensor of {x.element}: {error}") from None
    return cast(x, value)


def array_of(trace: Any, source: Any) -> TracedArray:
    """Convert nested lists that contain traced arrays to one array, as `numpy.array` does."""
    if not isinstance(source, (list, tuple)):
        return trace.array(source)  # type: ignore[no-any-return]
    from anydml.tracing.join_split import stack

    items = [array_of(trace, entry) if isinstance(entry, (list, tuple)) else entry for entry in source]
    return stack(arrays_of(trace, items))


def _with_box(x: TracedArray, part: TracedArray, starts: Sequence[Any], axis: int) -> TracedArray:
    """Replace the box at `starts` by an array, along an axis and all later ones."""
    if axis == x.ndim:
        return part
    size, count = x.shape[axis], part.shape[axis]
    start = smaller(starts[axis], size)
    if is_zero(start) and are_same(size, count):
        return _with_box(x, part, starts, axis + 1)
    count_after = size - start - count
    # Along the last axis, the part replaces all elements.
    inner = part if axis + 1 == x.ndim else _with_box(cut(x, axis, start, count), part, starts, axis + 1)
    front = [cut(x, axis, 0, start)] if is_open((start,)) or start else []
    back = [cut(x, axis, start + count, count_after)] if is_open((count_after,)) or count_after else []
    joined = x.trace.composer.join([slab.value for slab in (*front, inner, *back)], axis)
    # The sum of the parts' sizes would be a further open size.
    return x.trace.new_array(Value(x.shape, x.itemsize, joined.pieces), x.element, x.like)
