"""Sequences of tensors: construction, element access, splitting and concatenation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext, check_bytes
from anydml.onnx.nodes.arguments import Inputs, integer_list, optional, required, sequence, whole
from anydml.onnx.nodes.cutting import cut, joined_axis
from anydml.onnx.tensors import numpy_type
from anydml.onnx.values import GraphValue, Tensor, TensorSequence

MOST_PARTS = 1 << 16
"""Largest number of tensors that a node splits a tensor into."""

PART = 2048
"""Overhead of such a tensor in bytes: value, move and array."""


def split_to_sequence(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """SplitToSequence: parts of equal size, by default 1, where the last may be smaller; or parts of given sizes."""
    x, given = required(node, inputs, 0, "input"), optional(node, inputs, 1, "split")
    axis = node.axis(len(x.shape))
    size = x.shape[axis]
    if given is None:
        part = 1
        sizes = _equal(node, size, 1)
    elif given.shape == ():
        part = whole(node, ctx, given, "split")
        if part < 1:
            raise node.error(f"split is {part}", "split", "a part must have 1 or more")
        sizes = _equal(node, size, part)
    else:
        sizes = integer_list(node, ctx, given, "split")
        if any(each < 0 for each in sizes) or sum(sizes) != size:
            message = f"split adds up to {sum(sizes)}, but axis {axis} has size {size}"
            raise node.error(message, "split", "sizes must be 0 or more and add up to the axis")
    ctx.require_memory(node, PART * len(sizes))
    (value,) = ctx.values(x, times=len(sizes))
    parts = [*cut(ctx, value, axis, sizes)]
    if given is None and not node.integer("keepdims", 1):
        without = (*x.shape[:axis], *x.shape[axis + 1 :])
        parts = [ctx.composer.reshape(part_, without) for part_ in parts]
    return (TensorSequence(ctx.result(node, part_, x.dtype) for part_ in parts),)


def _equal(node: Node, size: int, part: int) -> list[int]:
    count = -(-size // part)
    if count > MOST_PARTS:
        message = f"makes {count} parts, but anydml makes at most {MOST_PARTS}"
        raise node.error(message, "split", f"a sequence must have at most {MOST_PARTS} tensors")
    return [min(part, size - k * part) for k in range(count)]


def sequence_construct(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """SequenceConstruct: a sequence of the inputs."""
    return (
        _one_type(node, TensorSequence(required(node, inputs, k, f"inputs[{k}]") for k in range(max(1, len(inputs))))),
    )


def _one_type(node: Node, tensors: TensorSequence) -> TensorSequence:
    for k, tensor in enumerate(tensors[1:], 1):
        if tensor.dtype != tensors[0].dtype:
            message = f"inputs[{k}] is {tensor.dtype}, but inputs[0] is {tensors[0].dtype}"
            raise node.error(message, f"inputs[{k}]", "tensors of a sequence must have one type")
    return tensors


def sequence_empty(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """SequenceEmpty: a sequence without tensors."""
    kind = node.integer("dtype")
    if kind is not None and numpy_type(kind) is None:
        raise node.error(f"dtype is {kind}", "dtype", "dtype must be an element type that onnx knows")
    return (TensorSequence(),)


def _place(node: Node, ctx: LoweringContext, inputs: Inputs, index: int, count: int, default: int) -> int:
    given = optional(node, inputs, index, "position")
    if given is None:
        return default
    place = whole(node, ctx, given, "position")
    if not -count <= place < count:
        raise node.error(f"position is {place}", "position", f"position must be {-count} to {count - 1}")
    return place + count * (place < 0)


def sequence_insert(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """SequenceInsert: insert a tensor, by default at the end."""
    tensors, tensor = sequence(node, inputs, 0, "input_sequence"), required(node, inputs, 1, "tensor")
    count = len(tensors)
    given = optional(node, inputs, 2, "position")
    place = count if given is None else whole(node, ctx, given, "position")
    if not -count <= place <= count:
        raise node.error(f"position is {place}", "position", f"position must be {-count} to {count}")
    place += count * (place < 0)
    return (_one_type(node, TensorSequence((*tensors[:place], tensor, *tensors[place:]))),)


def sequence_erase(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """SequenceErase: remove a tensor, by default the last."""
    tensors = sequence(node, inputs, 0, "input_sequence")
    if not tensors:
        raise node.error("the sequence is empty", "input_sequence", "there must be a tensor to erase")
    place = _place(node, ctx, inputs, 1, len(tensors), len(tensors) - 1)
    return (TensorSequence((*tensors[:place], *tensors[place + 1 :])),)


def sequence_at(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """SequenceAt: one of the tensors."""
    tensors = sequence(node, inputs, 0, "input_sequence")
    required(node, inputs, 1, "position")
    return (tensors[_place(node, ctx, inputs, 1, len(tensors), 0)],)


def sequence_length(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """SequenceLength: the number of tensors."""
    return (ctx.known_result(node, np.array(len(sequence(node, inputs, 0, "input_sequence")), np.int64)),)


def concat_from_sequence(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """ConcatFromSequence: join the tensors along an axis, or along a new one if `new_axis` is set."""
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
    values = ctx.values(*tensors)
    if is_new:
        values = [ctx.composer.reshape(value, part.shape) for value, part in zip(values, parts, strict=True)]
    return (ctx.result(node, ctx.composer.join(values, axis), parts[0].dtype),)
