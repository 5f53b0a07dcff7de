"""Sequences of tensors, and optional values: construction, element access, splitting and concatenation."""

from __future__ import annotations

import numpy as np

from anydml.onnx.graph import Node
from anydml.onnx.graph_values import EmptyOptional, GraphValue, Tensor, TensorSequence
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.nodes.node_arguments import elements_of, scalar
from anydml.onnx.nodes.split_slice_concat import joined_axis
from anydml.onnx.tensor_protos import numpy_type
from anydml.tracing.array_verbs import join, reshape, shape_with, split_axis

MAX_PARTS = 1 << 16
"""Largest number of tensors that a node splits a tensor into."""

PART = 2048
"""Overhead of such a tensor in bytes: value, move and array."""


def split_to_sequence(node: Node, ctx: LoweringContext, x: Tensor, split: Tensor | None = None) -> TensorSequence:
    """SplitToSequence: parts of equal size, by default 1, where the last may be smaller; or parts of given sizes."""
    axis = node.axis(len(x.shape))
    size = x.shape[axis]
    if split is None or split.shape == ():
        sizes = _equal(node, size, 1 if split is None else scalar(node, ctx, split, "split"))
    else:
        sizes = elements_of(node, ctx, split, "split")
        if any(part < 0 for part in sizes) or sum(sizes) != size:
            message = f"split adds up to {sum(sizes)}, but axis {axis} has size {size}"
            raise node.error(message, "split", "sizes must be 0 or more and add up to the axis")
    ctx.require_memory(node, PART * len(sizes))
    array = ctx.array(x, times=len(sizes))
    parts = split_axis(array, axis, sizes)
    if split is None and not node.get("keepdims"):
        parts = [reshape(part, shape_with(array, axis)) for part in parts]
    return TensorSequence(ctx.result(node, part) for part in parts).typed(x.dtype)


def _equal(node: Node, size: int, part: int) -> list[int]:
    if part < 1:
        raise node.error(f"split is {part}", "split", "split must be 1 or more, the size of each part")
    count = -(-size // part)
    if count > MAX_PARTS:
        message = f"makes {count} parts, but anydml makes at most {MAX_PARTS}"
        raise node.error(message, "split", f"a sequence must have at most {MAX_PARTS} tensors")
    return [min(part, size - k * part) for k in range(count)]


def sequence_construct(node: Node, ctx: LoweringContext, *tensors: Tensor) -> TensorSequence:
    """SequenceConstruct: a sequence of the inputs."""
    return TensorSequence(tensors)


def sequence_empty(node: Node, ctx: LoweringContext) -> TensorSequence:
    """SequenceEmpty: a sequence without tensors."""
    type_number = node.get("dtype")
    if type_number is not None and numpy_type(type_number) is None:
        raise node.error(f"dtype is {type_number}", "dtype", "dtype must be an element type that onnx knows")
    return TensorSequence().typed(np.dtype(np.float32) if type_number is None else numpy_type(type_number))


def _place(node: Node, ctx: LoweringContext, position: Tensor | None, first: int, last: int) -> int:
    """Return a position, from 0 on; `last` by default.

    Raises:
        ModelError: the position is outside first … last.
    """
    index: int = last if position is None else scalar(node, ctx, position, "position")
    if not first <= index <= last:
        raise node.error(f"position is {index}", "position", f"position must be {first} to {last}")
    return index - first * (index < 0)


def sequence_insert(
    node: Node, ctx: LoweringContext, tensors: TensorSequence, tensor: Tensor, position: Tensor | None = None
) -> TensorSequence:
    """SequenceInsert: insert a tensor, by default at the end."""
    index = _place(node, ctx, position, -len(tensors), len(tensors))
    dtype = tensors.typed(tensors.dtype).dtype
    if dtype is not None and tensor.dtype != dtype:
        message = f"tensor is {tensor.dtype}, but the sequence has {dtype}"
        raise node.error(message, "tensor", "tensors of a sequence must have one type")
    return TensorSequence((*tensors[:index], tensor, *tensors[index:]))


def sequence_erase(
    node: Node, ctx: LoweringContext, tensors: TensorSequence, position: Tensor | None = None
) -> TensorSequence:
    """SequenceErase: remove a tensor, by default the last."""
    _check_not_empty(node, tensors)
    index = _place(node, ctx, position, -len(tensors), len(tensors) - 1)
    return TensorSequence((*tensors[:index], *tensors[index + 1 :])).typed(tensors[0].dtype)


def _check_not_empty(node: Node, tensors: TensorSequence) -> None:
    if not tensors:
        raise node.error("the sequence is empty", "input_sequence", "the sequence must have a tensor")


def sequence_at(node: Node, ctx: LoweringContext, tensors: TensorSequence, position: Tensor) -> Tensor:
    """SequenceAt: one of the tensors."""
    return tensors[_place(node, ctx, position, -len(tensors), len(tensors) - 1)]


def sequence_length(node: Node, ctx: LoweringContext, tensors: TensorSequence) -> Tensor:
    """SequenceLength: the number of tensors."""
    return ctx.known_result(node, np.array(len(tensors), np.int64))


def concat_from_sequence(node: Node, ctx: LoweringContext, tensors: TensorSequence) -> Tensor:
    """ConcatFromSequence: join the tensors along an axis, or along a new one if `new_axis` is set."""
    _check_not_empty(node, tensors)
    parts: list[Tensor] = [*tensors]
    is_new = bool(node.get("new_axis"))
    if is_new:
        axis = node.axis(len(parts[0].shape) + 1)
        if any((part.shape, part.dtype) != (parts[0].shape, parts[0].dtype) for part in parts):
            raise node.error(
                "tensors differ in shape or type",
                "input_sequence",
                "tensors must have equal shapes and types to be stacked along a new axis",
            )
        parts = [Tensor(tensor.dtype, (*tensor.shape[:axis], 1, *tensor.shape[axis:])) for tensor in parts]
    axis, _, _ = joined_axis(node, parts)
    arrays = ctx.arrays(*tensors)
    if is_new:
        arrays = [reshape(array, part.shape) for array, part in zip(arrays, parts, strict=True)]
    return ctx.result(node, join(arrays, axis))


def optional_value(node: Node, ctx: LoweringContext, value: GraphValue | None = None) -> GraphValue:
    """Return the input, or an empty optional if it is omitted."""
    return EmptyOptional() if value is None else value


def get_element(node: Node, ctx: LoweringContext, value: GraphValue) -> GraphValue:
    """Return the element of an optional value; any other value is returned unchanged."""
    if isinstance(value, EmptyOptional):
        raise node.error("its input is empty", "input", "an optional value must have an element")
    return value


def has_element(node: Node, ctx: LoweringContext, value: GraphValue | None = None) -> Tensor:
    """Return whether the input is given and not empty, as a BOOL scalar."""
    return ctx.known_result(node, np.array(value is not None and not isinstance(value, EmptyOptional)))
