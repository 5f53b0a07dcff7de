"""Operations on the axes of traced arrays: reshape, permute, flip, roll, insert and remove."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from anydml.moves.compose import strided
from anydml.tracing import integers, shaping
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray


def is_column_major(order: Any) -> bool:
    """Whether an `order` is column-major instead of row-major.

    Raises:
        FuseError: the order would depend on an argument's memory layout.
    """
    if order not in (None, "C", "F"):
        raise broken(f"order {order!r} depends on an argument's memory layout: pass 'C' or 'F'")
    return bool(order == "F")


def reshape(x: TracedArray, shape: Any, order: Any = "C", newshape: Any = None, copy: Any = None) -> TracedArray:
    """Like NumPy's function, in order 'C' or 'F'."""
    is_turned = is_column_major(order)
    wanted = shape if shape is not None else newshape
    sizes = integers.wholes(wanted)
    rest = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and rest > 0 and x.count % rest == 0:
        sizes[sizes.index(-1)] = x.count // rest
    if any(size < 0 for size in sizes) or math.prod(sizes) != x.count:
        raise broken(f"cannot reshape {x!r} into shape {wanted}")
    if copy is not None and not copy and not _is_view(x, sizes, order):
        raise broken(f"{x!r} cannot be reshaped into {wanted} without a copy: leave copy=False out")
    return transpose(shaping.reshaped(transpose(x), sizes[::-1])) if is_turned else shaping.reshaped(x, sizes)


def _is_view(x: TracedArray, sizes: Sequence[int], order: Any) -> bool:
    """Whether NumPy would reshape an array without a copy, as far as its layout is known."""
    if (found := strided(x.value)) is None:
        return not x.count
    # Only the layout matters; no element is read.
    like = np.lib.stride_tricks.as_strided(np.empty(1, f"V{x.itemsize}"), x.shape, found[1].strides)
    try:
        like.reshape(sizes, order=order, copy=False)
    except ValueError:
        return False
    return True


def reshaped_as(x: TracedArray, other: TracedArray) -> TracedArray:
    """Like torch.Tensor.view_as."""
    return reshape(x, other.shape)


def ravel(x: TracedArray, order: Any = "C") -> TracedArray:
    """Like NumPy's function, in order 'C' or 'F'."""
    return shaping.reshaped(transpose(x) if is_column_major(order) else x, (x.count,))


def transpose(x: TracedArray, axes: Any = None) -> TracedArray:
    """Like numpy.transpose."""
    if axes is None:
        return shaping.permuted(x, range(x.ndim)[::-1])
    found = normalize_axis_tuple(axes, x.ndim)
    if len(found) != x.ndim:
        raise broken(f"axes {axes} do not match {x!r}")
    return shaping.permuted(x, found)


def swapaxes(x: TracedArray, axis1: int, axis2: int) -> TracedArray:
    """Like numpy.swapaxes."""
    axes = [*range(x.ndim)]
    one, other = normalize_axis_index(axis1, x.ndim), normalize_axis_index(axis2, x.ndim)
    axes[one], axes[other] = axes[other], axes[one]
    return shaping.permuted(x, axes)


def exchanged(x: TracedArray, dim0: int, dim1: int) -> TracedArray:
    """Like torch.transpose, which returns a tensor of no dimensions unchanged."""
    return swapaxes(x, dim0, dim1) if x.ndim else x


def t(x: TracedArray) -> TracedArray:
    """Like torch.t."""
    if x.ndim > 2:
        raise broken(f"t() of {x!r}: it has more than 2 dimensions")
    return transpose(x)


def adjoint(x: TracedArray) -> TracedArray:
    """Like torch.adjoint, for real elements."""
    return swapaxes(conjugate(x), -1, -2)


def conjugate(x: TracedArray) -> TracedArray:
    """Return x, whose elements must be real."""
    if x.element.kind == "c":
        raise refused(f"a conjugate of {x!r}")
    return x


def real(x: TracedArray) -> TracedArray:
    """Return x, whose elements must be real."""
    if x.element.kind == "c":
        raise broken(
            f"the real parts of {x!r}: a fused function cannot change the size of elements: pass a view of the argument"
        )
    return x


def same(x: TracedArray) -> TracedArray:
    """Return x: results of a fused function are copies anyway."""
    return x


def moveaxis(x: TracedArray, source: Any, destination: Any) -> TracedArray:
    """Like numpy.moveaxis."""
    sources = normalize_axis_tuple(source, x.ndim, "source")
    places = normalize_axis_tuple(destination, x.ndim, "destination")
    if len(sources) != len(places):
        raise broken("`source` and `destination` arguments must have the same number of elements")
    axes = [axis for axis in range(x.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        axes.insert(place, axis)
    return shaping.permuted(x, axes)


def squeeze(x: TracedArray, axis: Any = None) -> TracedArray:
    """Like numpy.squeeze."""
    gone = [k for k, n in enumerate(x.shape) if n == 1] if axis is None else normalize_axis_tuple(axis, x.ndim)
    if any(x.shape[k] != 1 for k in gone):
        raise broken(f"cannot squeeze axis {axis} of {x!r}: its size is not 1")
    return shaping.reshaped(x, [n for k, n in enumerate(x.shape) if k not in gone])


def expand_dims(x: TracedArray, axis: Any) -> TracedArray:
    """Like numpy.expand_dims."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = x.ndim + len(axes)
    new = normalize_axis_tuple(axes, rank)
    sizes = iter(x.shape)
    return shaping.reshaped(x, [1 if k in new else next(sizes) for k in range(rank)])


def raised(x: TracedArray, rank: int) -> TracedArray:
    """Like numpy.atleast_1d, atleast_2d and atleast_3d; the latter appends the new axis of a 2-D array."""
    if x.ndim >= rank:
        return x
    if rank == 3 and x.ndim:
        return shaping.reshaped(x, (1, *x.shape, 1) if x.ndim == 1 else (*x.shape, 1))
    return shaping.reshaped(x, (*(1,) * (rank - x.ndim), *x.shape))


def atleast(arrays: Sequence[TracedArray], rank: int) -> Any:
    """Like numpy.atleast_1d and so on, for one array or several."""
    found = tuple(raised(array, rank) for array in arrays)
    return found[0] if len(found) == 1 else found


def raised_each(tensors: Sequence[Any], rank: int) -> Any:
    """Like torch.atleast_1d and so on, for tensors or a list of tensors."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(raised(tensor, rank) for tensor in tensors[0])
    return atleast(tensors, rank)


def flip(x: TracedArray, axis: Any = None) -> TracedArray:
    """Like numpy.flip."""
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    starts = [x.shape[k] - 1 if k in axes and x.shape[k] else 0 for k in range(x.ndim)]
    return shaping.sliced(x, starts, x.shape, [-1 if k in axes and x.shape[k] else 1 for k in range(x.ndim)])


def rot90(x: TracedArray, k: int = 1, axes: Sequence[int] = (0, 1)) -> TracedArray:
    """Like numpy.rot90."""
    first, second = normalize_axis_tuple(axes, x.ndim)
    turns = operator.index(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


def rollaxis(x: TracedArray, axis: int, start: int = 0) -> TracedArray:
    """Like numpy.rollaxis."""
    axis = normalize_axis_index(axis, x.ndim)
    # A negative start counts from the last axis, not from the end of the shape.
    if not -x.ndim <= start <= x.ndim:
        raise broken(f"start is {start}, but must be {-x.ndim} to {x.ndim}")
    start += x.ndim * (start < 0)
    return moveaxis(x, axis, start - (axis < start))


def roll(x: TracedArray, shift: Any, axis: Any = None) -> TracedArray:
    """Like numpy.roll."""
    if axis is None:
        return shaping.reshaped(roll(ravel(x), sum(integers.wholes(shift)), 0), x.shape)
    axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    by = integers.wholes(shift)
    if len({1, len(by), len(axes)}) > 2:
        raise broken(f"{len(by)} shifts along {len(axes)} axes")
    shifts: dict[int, Any] = {}
    for k in range(max(len(by), len(axes))):
        one = axes[k if len(axes) > 1 else 0]
        shifts[one] = shifts.get(one, 0) + by[k if len(by) > 1 else 0]
    for one, total in shifts.items():
        size = x.shape[one]
        turn = total if 0 <= total < size else total + size if -size <= total < 0 else total % size if size else 0
        if turn:
            cut = size - turn
            x = shaping.joined([shaping.cut(x, one, cut, size - cut), shaping.cut(x, one, 0, cut)], one)
    return x


def shifted(x: TracedArray, axes: Any = None, by: int = 1) -> TracedArray:
    """Like numpy.fft.fftshift, or ifftshift if `by` is −1."""
    along = range(x.ndim) if axes is None else integers.wholes(axes)
    return roll(x, [by * (x.shape[k] // 2) for k in along], tuple(along))


def rolled(x: TracedArray, shifts: Any, dims: Any = None) -> TracedArray:
    """Like torch.roll."""
    by, along = integers.wholes(shifts), None if dims is None else integers.wholes(dims)
    if len(by) != len(along or [0]):
        raise broken(f"torch.roll by {len(by)} shifts along {len(along or [])} dims: there must be one shift per dim")
    return roll(x, by, tuple(along)) if along and x.ndim else roll(x, by)


def dimension(x: TracedArray, dim: Any) -> int:
    """Normalize a dimension as PyTorch does: a scalar tensor has dimension 0, too."""
    return normalize_axis_index(operator.index(dim), max(x.ndim, 1))


def flatten(x: TracedArray, start_dim: int = 0, end_dim: int = -1) -> TracedArray:
    """Like torch.flatten."""
    first, last = dimension(x, start_dim), dimension(x, end_dim)
    if first > last:
        raise broken(f"start_dim {start_dim} comes after end_dim {end_dim}")
    sizes = x.shape or (1,)
    return shaping.reshaped(x, (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]))


def unflatten(x: TracedArray, dim: int, sizes: Sequence[int]) -> TracedArray:
    """Like torch.unflatten; one size may be −1."""
    place = dimension(x, dim)
    own, parts = x.shape[place], integers.wholes(sizes)
    rest = math.prod(n for n in parts if n != -1)
    if parts.count(-1) == 1 and rest > 0 and own % rest == 0:
        parts[parts.index(-1)] = own // rest
    if not parts or any(part < 0 for part in parts) or math.prod(parts) != own:
        raise broken(f"unflatten: sizes {[*sizes]} do not multiply to {own}")
    return shaping.reshaped(x, (*x.shape[:place], *parts, *x.shape[place + 1 :]))


def dropped(x: TracedArray, dim: Any = None) -> TracedArray:
    """Like torch.squeeze, which keeps dimensions of sizes other than 1."""
    if dim is None or not x.ndim:
        return squeeze(x)
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    gone = {k for k in normalize_axis_tuple(tuple(dims), x.ndim) if x.shape[k] == 1}
    return shaping.reshaped(x, [n for k, n in enumerate(x.shape) if k not in gone])


def unsqueeze(x: TracedArray, dim: int) -> TracedArray:
    """Like torch.unsqueeze."""
    return expand_dims(x, operator.index(dim))
