"""Sequences of tensors, which only carry: made, cut, put together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from anydml.onnx.graph import Node
from anydml.onnx.moving import Moving, check_bytes
from anydml.onnx.nodes.arguments import Inputs, integer_list, optional, required, sequence, whole
from anydml.onnx.nodes.cutting import cut, joined_axis
from anydml.onnx.tensors import numpy_type
from anydml.onnx.values import Flowing, Tensor, Tensors

MOST_PARTS = 1 << 16
"""Tensors of a sequence that one node makes."""

PART = 2048
"""Bytes that one takes beside its elements: as a value, as a move, as an array."""


def split_to_sequence(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """Parts along an axis: of one size each, by default 1, the last may be smaller; or of the sizes given."""
    x, given = required(node, inputs, 0, "input"), optional(node, inputs, 1, "split")
    axis = node.axis(len(x.shape))
    size = x.shape[axis]
    if given is None:
        part = 1
        sizes = _equal(node, size, 1)
    elif given.shape == ():
        part = whole(node, at, given, "split")
        if part < 1:
            raise node.error(f"split is {part}", "split", "a part must have 1 or more")
        sizes = _equal(node, size, part)
    else:
        sizes = integer_list(node, at, given, "split")
        if any(each < 0 for each in sizes) or sum(sizes) != size:
            message = f"split adds up to {sum(sizes)}, but axis {axis} has size {size}"
            raise node.error(message, "split", "sizes must be 0 or more and add up to the axis")
    at.ask(node, PART * len(sizes))
    (value,) = at.values(x, times=len(sizes))
    parts = [*cut(at, value, axis, sizes)]
    if given is None and not node.integer("keepdims", 1):
        without = (*x.shape[:axis], *x.shape[axis + 1 :])
        parts = [at.composer.reshape(part_, without) for part_ in parts]
    return (Tensors(at.moved(node, part_, x.dtype) for part_ in parts),)


def _equal(node: Node, size: int, part: int) -> list[int]:
    count = -(-size // part)
    if count > MOST_PARTS:
        message = f"makes {count} parts, but anydml makes at most {MOST_PARTS}"
        raise node.error(message, "split", f"a sequence must have at most {MOST_PARTS} tensors")
    return [min(part, size - k * part) for k in range(count)]


def sequence_construct(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """The inputs, one after the other."""
    return (_one_type(node, Tensors(required(node, inputs, k, f"inputs[{k}]") for k in range(max(1, len(inputs))))),)


def _one_type(node: Node, tensors: Tensors) -> Tensors:
    for k, tensor in enumerate(tensors[1:], 1):
        if tensor.dtype != tensors[0].dtype:
            message = f"inputs[{k}] is {tensor.dtype}, but inputs[0] is {tensors[0].dtype}"
            raise node.error(message, f"inputs[{k}]", "tensors of a sequence must have one type")
    return tensors


def sequence_empty(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """No tensors."""
    kind = node.integer("dtype")
    if kind is not None and numpy_type(kind) is None:
        raise node.error(f"dtype is {kind}", "dtype", "dtype must be an element type that onnx knows")
    return (Tensors(),)


def _place(node: Node, at: Moving, inputs: Inputs, index: int, count: int, default: int) -> int:
    given = optional(node, inputs, index, "position")
    if given is None:
        return default
    place = whole(node, at, given, "position")
    if not -count <= place < count:
        raise node.error(f"position is {place}", "position", f"position must be {-count} to {count - 1}")
    return place + count * (place < 0)


def sequence_insert(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """One more tensor; by default at the end."""
    tensors, tensor = sequence(node, inputs, 0, "input_sequence"), required(node, inputs, 1, "tensor")
    count = len(tensors)
    given = optional(node, inputs, 2, "position")
    place = count if given is None else whole(node, at, given, "position")
    if not -count <= place <= count:
        raise node.error(f"position is {place}", "position", f"position must be {-count} to {count}")
    place += count * (place < 0)
    return (_one_type(node, Tensors((*tensors[:place], tensor, *tensors[place:]))),)


def sequence_erase(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """One tensor less; by default the last."""
    tensors = sequence(node, inputs, 0, "input_sequence")
    if not tensors:
        raise node.error("the sequence is empty", "input_sequence", "there must be a tensor to erase")
    place = _place(node, at, inputs, 1, len(tensors), len(tensors) - 1)
    return (Tensors((*tensors[:place], *tensors[place + 1 :])),)


def sequence_at(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """One of the tensors."""
    tensors = sequence(node, inputs, 0, "input_sequence")
    required(node, inputs, 1, "position")
    return (tensors[_place(node, at, inputs, 1, len(tensors), 0)],)


def sequence_length(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """How many tensors there are."""
    return (at.given(node, np.array(len(sequence(node, inputs, 0, "input_sequence")), np.int64)),)


def concat_from_sequence(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """The tensors joined along an axis, or, with `new_axis`, along a new one."""
    tensors = sequence(node, inputs, 0, "input_sequence")
    if not tensors:
        raise node.error("the sequence is empty", "input_sequence", "there must be a tensor to join")
    parts: list[Tensor] = [*tensors]
    is_new = bool(node.integer("new_axis", 0))
    if is_new:
        axis = node.axis(len(parts[0].shape) + 1, None)
        if any((part.shape, part.dtype) != (parts[0].shape, parts[0].dtype) for part in parts):
            raise node.error("tensors differ in shape or type", "input_sequence", "they must be equal along a new axis")
        parts = [Tensor(p.dtype, (*p.shape[:axis], 1, *p.shape[axis:])) for p in parts]
    axis, _, sizes = joined_axis(node, parts)
    check_bytes(node, sizes, parts[0].dtype.itemsize)
    values = at.values(*tensors)
    if is_new:
        values = [at.composer.reshape(value, part.shape) for value, part in zip(values, parts, strict=True)]
    return (at.moved(node, at.composer.join(values, axis), parts[0].dtype),)
