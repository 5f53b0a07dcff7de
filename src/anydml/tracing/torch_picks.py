"""PyTorch's functions that take elements of traced tensors, and those that make tensors like them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.arrays import received
from anydml.errors import FuseIndexError
from anydml.text import counted
from anydml.tracing import numpy_axes, shaping
from anydml.tracing.refusing import broken, refused
from anydml.tracing.torch_axes import dimension
from anydml.tracing.torch_joins import pad
from anydml.tracing.trace import Trace, TracedArray


def narrow(x: TracedArray, dim: int, start: int, length: int) -> TracedArray:
    """As torch.narrow."""
    place = dimension(x, dim)
    whole, size, first = x.shape[place], operator.index(length), operator.index(start)
    if not -whole <= first <= whole:
        raise broken(f"start {first} is out of range for a dimension of size {whole}", FuseIndexError)
    first += whole * (first < 0)
    if size < 0 or first + size > whole:
        raise broken(f"start {first} and length {size} exceed a dimension of size {whole}")
    return shaping.cut(x, place, first if size else 0, size)


def select(x: TracedArray, dim: int, index: int) -> TracedArray:
    """As torch.select."""
    place = dimension(x, dim)
    whole, at = x.shape[place], operator.index(index)
    if not -whole <= at < whole:
        raise broken(f"index {at} is out of range for a dimension of size {whole}", FuseIndexError)
    return shaping.reshaped(shaping.cut(x, place, at % whole, 1), (*x.shape[:place], *x.shape[place + 1 :]))


def index_select(trace: Trace, input: Any, dim: int, index: Any) -> TracedArray:
    """As torch.index_select: indices are 0 or more."""
    x = trace.array(input)
    if np.ndim(index) > 1:
        raise broken("index has one dimension")
    by = numpy_axes.raised(index, 1) if isinstance(index, TracedArray) else np.atleast_1d(_known(index))
    if not x.ndim:
        x = shaping.reshaped(x, (1,))
        return shaping.reshaped(shaping.picked(x, _from_zero(by), 0), ())
    return shaping.picked(x, _from_zero(by), dimension(x, dim))


def along(trace: Trace, input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> TracedArray:
    """By an index for each element of the result: 0 or more; their sizes may be smaller than the tensor's."""
    x, by = trace.array(input), trace.array(index)
    place = dimension(x, dim)
    if not by.count:
        return x.made(shaping.filled(x, by.shape, None, None).value)
    if max(x.ndim, 1) != max(by.ndim, 1):
        raise broken(f"indices of {counted(by.ndim, 'dimension')} pick from {x.ndim}")
    shape = by.shape
    x, by = (shaping.reshaped(each, each.shape or (1,)) for each in (x, by))
    if any(n > whole for k, (n, whole) in enumerate(zip(by.shape, x.shape, strict=True)) if k != place):
        raise broken(f"indices of shape {by.shape} are larger than {x.shape} beside dimension {place}")
    sizes = [x.shape[k] if k == place else n for k, n in enumerate(by.shape)]
    x = shaping.sliced(x, [0] * x.ndim, sizes, [1] * x.ndim)
    outside, checked = _checked(trace, index, by, x.shape[place])
    return shaping.reshaped(shaping.along(x, checked, place, outside), shape)


def take_along_dim(trace: Trace, input: Any, indices: Any, dim: Any = None) -> TracedArray:
    """As torch.take_along_dim."""
    x, by = trace.array(input), trace.array(indices)
    known = None if isinstance(indices, TracedArray) else _known(indices)
    if dim is None:
        x, by, dim = numpy_axes.ravel(x), numpy_axes.ravel(by), 0
        known = None if known is None else known.reshape(-1)
    place = dimension(x, dim)
    if by.ndim != x.ndim:
        raise broken(f"indices of {counted(by.ndim, 'dimension')} pick from {x.ndim}")
    sizes = [*np.broadcast_shapes(*((*each.shape[:place], 1, *each.shape[place + 1 :]) for each in (x, by)))]
    wide, long = [*sizes], [*sizes]
    wide[place], long[place] = x.shape[place], by.shape[place]
    given = np.broadcast_to(known, long) if known is not None else shaping.broadcast(by, long)
    return along(trace, shaping.broadcast(x, wide), place, given)


def take(trace: Trace, input: Any, index: Any) -> TracedArray:
    """As torch.take: of all elements in order; negative indices count from their end."""
    by = index if isinstance(index, TracedArray) else _known(index)
    return shaping.picked(numpy_axes.ravel(trace.array(input)), by, 0)


def embedding(
    trace: Trace,
    input: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TracedArray:
    """As torch.nn.functional.embedding, without a norm."""
    if max_norm is not None:
        raise refused("embedding with max_norm")
    table = trace.array(weight)
    if table.ndim != 2:
        raise broken(f"weight has {counted(table.ndim, 'dimension')}, but must have 2")
    by = input if isinstance(input, TracedArray) else _known(input)
    return shaping.picked(table, _from_zero(by), 0)


def unfold(trace: Trace, input: Any, *arguments: Any, **named: Any) -> TracedArray:
    """As torch.Tensor.unfold (dimension, size, step), or torch.nn.functional.unfold (kernel_size, …)."""
    x = trace.array(input)
    if len(arguments) == 3 and not named:
        return _windows(x, *arguments)
    if {"dimension", "size", "step"} & {*named}:
        given = dict(zip(("dimension", "size", "step"), arguments, strict=False), **named)
        return _windows(x, **given)
    return _columns(x, *arguments, **named)


def _windows(x: TracedArray, dimension: int, size: int, step: int) -> TracedArray:
    if not x.ndim:
        # The one dimension becomes that of the window.
        found = _windows(shaping.reshaped(x, (1,)), dimension, size, step)
        return shaping.reshaped(found, found.shape[1:])
    place = dimension + x.ndim * (dimension < 0)
    length = operator.index(size)
    if not 0 <= place < x.ndim or not 0 <= length <= x.shape[place] or step < 1:
        raise broken(f"windows of {size} by {step} along dimension {dimension} of {x!r}")
    count = (x.shape[place] - length) // step + 1
    parts = [numpy_axes.expand_dims(shaping.cut(x, place, k, count, step), x.ndim) for k in range(length)]
    empty = shaping.filled(x, (*x.shape[:place], count, *x.shape[place + 1 :], 0), None, None)
    return shaping.joined(parts or [empty], x.ndim)


def _columns(x: TracedArray, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> TracedArray:
    (height, width), (down, right), (top, side), (by, across) = map(_two, (kernel_size, dilation, padding, stride))
    if x.ndim not in (3, 4) or min(height, width, down, right, by, across) < 1 or min(top, side) < 0:
        raise broken(f"unfold of {x!r} takes three or four dimensions, and sizes of at least 1")
    if x.ndim == 3:
        columns = _columns(numpy_axes.expand_dims(x, 0), kernel_size, dilation, padding, stride)
        return shaping.reshaped(columns, columns.shape[1:])
    padded = pad(x, (side, side, top, top))
    batch, channels, rows, places = padded.shape
    blocks = ((rows - down * (height - 1) - 1) // by + 1, (places - right * (width - 1) - 1) // across + 1)
    if min(blocks) < 1:
        raise broken(f"a window of {height} by {width} does not fit into {x!r}")
    taps = []
    for i in range(height):
        part = shaping.cut(padded, 2, i * down, blocks[0], by)
        cuts = (shaping.cut(part, 3, j * right, blocks[1], across) for j in range(width))
        taps += [numpy_axes.expand_dims(each, 2) for each in cuts]
    return shaping.reshaped(shaping.joined(taps, 2), (batch, channels * height * width, blocks[0] * blocks[1]))


def _two(number: Any) -> tuple[int, int]:
    first, second = number if isinstance(number, (tuple, list)) and len(number) == 2 else (number, number)
    if isinstance(first, (tuple, list)):
        return _two(first[0])
    return operator.index(first), operator.index(second)


def like(number: Any) -> Callable[..., TracedArray]:
    """torch.zeros_like and so on."""

    def made(x: TracedArray, *, dtype: Any = None, **others: Any) -> TracedArray:
        return shaping.filled(x, x.shape, _element(x, dtype), number)

    return made


def full_like(x: TracedArray, fill_value: Any, *, dtype: Any = None, **others: Any) -> TracedArray:
    """As torch.full_like."""
    return shaping.filled(x, x.shape, _element(x, dtype), fill_value)


def new(number: Any) -> Callable[..., TracedArray]:
    """torch.Tensor.new_zeros and so on."""

    def made(x: TracedArray, size: Sequence[int], *, dtype: Any = None, **others: Any) -> TracedArray:
        return shaping.filled(x, size, _element(x, dtype), number)

    return made


def new_full(x: TracedArray, size: Sequence[int], fill_value: Any, *, dtype: Any = None, **others: Any) -> TracedArray:
    """As torch.Tensor.new_full."""
    return shaping.filled(x, size, _element(x, dtype), fill_value)


def to(x: TracedArray, *arguments: Any, **named: Any) -> TracedArray:
    """As torch.Tensor.to, to where and what it is."""
    for each in (*arguments, *named.values()):
        wanted = getattr(each, "dtype", each)
        kind = type(wanted).__name__
        if kind == "dtype" and wanted != x.dtype:
            raise refused(f"{x!r} as {wanted}")
        if (kind == "device" or isinstance(wanted, str)) and str(wanted) != str(x.trace.device):
            raise refused(f"{x!r} on {wanted}", "call the function with tensors that lie there")
    return x


def as_dtype(name: str) -> Callable[..., TracedArray]:
    """A method that converts, such as `torch.Tensor.float`: of tensors that are of its dtype already."""

    def convert(x: TracedArray, memory_format: Any = None) -> TracedArray:
        import torch

        return to(x, getattr(torch, name))

    return convert


def _element(x: TracedArray, dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of one of PyTorch's."""
    if dtype is None:
        return x.element
    import torch

    found: np.dtype[Any] = received("dtype", torch.empty(0, dtype=dtype))[0].dtype
    return found


def _known(indices: Any) -> np.ndarray[Any, Any]:
    return received("indices", indices)[0]


def _from_zero(indices: Any) -> Any:
    """Indices of which negative ones are out of range."""
    if isinstance(indices, TracedArray):
        name = indices.element.name
        if name not in ("int32", "int64"):
            return indices
        # As unsigned ones they are beyond any size.
        indices.trace.are_unsigned(indices.value, 8 * indices.itemsize)
        return indices.trace.made(indices.value, np.dtype(f"u{name}"))
    if indices.size and int(indices.min()) < 0:
        raise broken(f"index {int(indices.min())} is out of range", FuseIndexError)
    return indices


def _checked(trace: Trace, index: Any, by: TracedArray, size: int) -> tuple[Any, TracedArray]:
    """Indices that are looked up, and what happens outside: those that are known lie inside."""
    if isinstance(index, TracedArray):
        return "refuse", _from_zero(by)
    known = _from_zero(_known(index))
    return "clamp", trace.array(shaping.known_indices(known, size).reshape(by.shape))
