"""Reinterpretation of one tensor's bytes as another tensor, at the two ends of an edge.

Values of graphs have one axis more than their tensors: an element of the tensor consists of the elements along the
value's last axis. So a tensor can be composed of smaller elements than its own.
"""

from __future__ import annotations

import math

from anydml.moves.new_axes import split_elements
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value, join
from anydml.tensor import TensorDesc


def refine(value: Value, size: int) -> Value:
    """Divide elements into elements of `size` bytes, which must divide the present size; the last axis grows."""
    count = value.element_size // size
    return value if count == 1 else split_elements(value, size).reshape((*value.sizes[:-1], value.sizes[-1] * count))


def is_same_view(source: TensorDesc, target: TensorDesc) -> bool:
    """Whether two tensors have the same elements in the same bytes."""
    if source.sizes != target.sizes or source.data_type.itemsize != target.data_type.itemsize:
        return False
    pairs = zip(source.sizes, source.element_strides, target.element_strides, strict=True)
    return all(size == 1 or source_stride == target_stride for size, source_stride, target_stride in pairs)


def reinterpret(value: Value, source: TensorDesc, target: TensorDesc) -> Value:
    """Reinterpret a value of one tensor as another of equal TotalTensorSizeInBytes; gaps are read as zeros.

    Raises:
        NotComposableError: the bytes must be stored first.
    """
    if is_same_view(source, target):
        return value
    total = source.size_in_bytes
    size = math.gcd(value.element_size, target.data_type.itemsize, total)
    return _view(_flat(refine(value, size), source, total), target)


def _flat(value: Value, tensor: TensorDesc, total: int) -> Value:
    """Return all bytes of a tensor, in order."""
    length = value.sizes[-1]
    axes = [k for k, size in enumerate(tensor.sizes) if size > 1]
    strides = {k: tensor.element_strides[k] * length for k in axes}
    axes.sort(key=lambda k: -strides[k])
    broadcast_axes = [k for k in range(len(tensor.sizes)) if k not in axes]
    flat = value.permute([*broadcast_axes, *axes, len(tensor.sizes)])
    flat = flat.reshape((*(tensor.sizes[k] for k in axes), length))
    reach = length
    for axis in reversed(axes):
        if strides[axis] < reach:
            raise NotComposableError("its elements interleave, and its bytes are read as another tensor's")
        reach += (tensor.sizes[axis] - 1) * strides[axis]
        flat = _with_length(flat, strides[axis])
        *outer, count, element_bytes = flat.sizes
        flat = flat.reshape((*outer, count * element_bytes))
    return _with_length(flat, total // value.element_size)


def _view(flat: Value, tensor: TensorDesc) -> Value:
    """Return consecutive bytes as a tensor."""
    length, sizes = tensor.data_type.itemsize // flat.element_size, tensor.sizes
    axes = [k for k, size in enumerate(sizes) if size > 1 and tensor.element_strides[k]]
    axes.sort(key=lambda k: -tensor.element_strides[k])
    value = flat
    for k, axis in enumerate(axes):
        step = tensor.element_strides[axis]
        if step < 1 + sum((sizes[inner] - 1) * tensor.element_strides[inner] for inner in axes[k + 1 :]):
            raise NotComposableError("its bytes are read more than once, as another tensor's")
        value = _with_length(value, sizes[axis] * step * length)
        value = value.reshape((*value.sizes[:-1], sizes[axis], step * length))
    value = _with_length(value, length)
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    value = value.permute([*order, len(axes)])
    value = value.reshape((*(n if k in axes else 1 for k, n in enumerate(sizes)), length))
    return value.broadcast((*sizes, length))


def _with_length(value: Value, length: int) -> Value:
    """Truncate the last axis, or pad it with zeros."""
    *outer, length_before = value.sizes
    if length_before < length:
        zeros = Value.of_fill((*outer, length - length_before), bytes(value.element_size))
        return join([value, zeros], len(outer))
    rank = len(value.sizes)
    return value.slice((0,) * rank, (*outer, length), (1,) * rank) if length_before > length else value
