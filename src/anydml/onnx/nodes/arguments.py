"""Read and check inputs of nodes: required and optional tensors, sequences, sizes, axes, scalars and indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.moves.move import Outside
from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.values import Array, GraphValue, Sizes, Tensor, TensorSequence
from anydml.tracing.sizes import is_open

Inputs = Sequence[GraphValue | None]


def required(node: Node, inputs: Inputs, index: int, name: str) -> Tensor:
    """Return a required input.

    Raises:
        ModelError: the input is missing, or is a sequence.
    """
    value = optional(node, inputs, index, name)
    if value is None:
        raise node.error(f"input {index} ({name}) is missing", name, f"{name} is required")
    return value


def optional(node: Node, inputs: Inputs, index: int, name: str) -> Tensor | None:
    """Return an optional input; None if it is omitted.

    Raises:
        ModelError: the input is a sequence.
    """
    value = inputs[index] if index < len(inputs) else None
    if isinstance(value, TensorSequence):
        raise node.error(f"input {index} ({name}) is a sequence", name, f"{name} must be a tensor")
    return value


def sequence(node: Node, inputs: Inputs, index: int, name: str) -> TensorSequence:
    """Return a required input that is a sequence.

    Raises:
        ModelError: the input is missing, or is a tensor.
    """
    value = inputs[index] if index < len(inputs) else None
    if not isinstance(value, TensorSequence):
        raise node.error(f"input {index} ({name}) is no sequence", name, f"{name} must be a sequence")
    return value


def vector(node: Node, ctx: LoweringContext, inputs: Inputs, index: int, name: str) -> list[int] | None:
    """Return the elements of an optional 1-D input of INT32 or INT64; None if it is omitted.

    Raises:
        ModelError: the input has another type or rank.
    """
    tensor = optional(node, inputs, index, name)
    return None if tensor is None else integer_list(node, ctx, tensor, name)


def integer_list(node: Node, ctx: LoweringContext, tensor: Tensor, name: str) -> list[int]:
    """Return the elements of a 1-D tensor of INT32 or INT64.

    Raises:
        ModelError: the tensor has another type or rank.
    """
    if tensor.dtype not in (np.int32, np.int64) or len(tensor.shape) != 1:
        what = f"{name} is {tensor.dtype} of shape {list(tensor.shape)}"
        raise node.error(what, name, f"{name} must be one-dimensional, INT32 or INT64")
    found: list[int] = ctx.known(node, tensor, name).tolist()
    return found


def scalar(node: Node, ctx: LoweringContext, tensor: Tensor, name: str) -> Any:
    """Return the element of a tensor with one element.

    Raises:
        ModelError: the tensor has none, or several.
    """
    if tensor.size != 1:
        raise node.error(f"{name} has shape {list(tensor.shape)}", name, f"{name} must be a scalar")
    return ctx.known(node, tensor, name).reshape(()).item()


def whole(node: Node, ctx: LoweringContext, tensor: Tensor, name: str) -> int:
    """Return the element of an integer tensor with one element.

    Raises:
        ModelError: the tensor has none, several, or another type.
    """
    value = scalar(node, ctx, tensor, name)
    if tensor.dtype.kind not in "iu":
        raise node.error(f"{name} is {tensor.dtype}", name, f"{name} must be an integer")
    return value if is_open((value,)) else operator.index(value)


def axes_of(node: Node, axes: Sequence[int], rank: int, name: str = "axes", may_repeat: bool = False) -> list[int]:
    """Normalise axes to 0 … rank − 1, in the given order.

    Raises:
        ModelError: an axis is out of range, or repeats although `may_repeat` is False.
    """
    found: list[int] = []
    for axis in axes:
        if not -rank <= axis < rank:
            rule = f"{name} must be {-rank} to {rank - 1}"
            raise node.error(f"{name} has {axis}, but the rank is {rank}", name, rule)
        if axis % rank in found and not may_repeat:
            raise node.error(f"{name} {list(axes)} has axis {axis % rank} twice", name, f"{name} must not repeat")
        found.append(axis % rank)
    return found


def same_type(node: Node, first: tuple[str, Tensor], *others: tuple[str, Tensor]) -> None:
    """Check that inputs, given with their names, have one type.

    Raises:
        ModelError: a type differs.
    """
    for name, tensor in others:
        if tensor.dtype != first[1].dtype:
            message = f"{name} is {tensor.dtype}, but {first[0]} is {first[1].dtype}"
            raise node.error(message, name, "both must have one type")


def index_type(node: Node, tensor: Tensor, name: str = "indices") -> None:
    """Check that indices are INT32 or INT64.

    Raises:
        ModelError: they have another type.
    """
    if tensor.dtype not in (np.int32, np.int64):
        raise node.error(f"{name} are {tensor.dtype}", name, f"{name} must be INT32 or INT64")


def check_range(node: Node, indices: Array, size: int, axis: int, name: str = "indices") -> None:
    """Check that indices are in the range of an axis, where negative ones count from its end.

    Raises:
        ModelError: an index is out of range.
    """
    if not indices.size:
        return
    for index in (int(indices.min()), int(indices.max())):
        if not -size <= index < size:
            message = f"index {index} is out of range for axis {axis} with size {size}"
            raise node.error(message, name, f"{name} must be {-size} to {size - 1}")


def outside(indices: Tensor, otherwise: Outside = "clamp") -> Outside:
    """Return how lookups treat indices out of range: refuse them, unless `check_range` has checked them already."""
    return "refuse" if indices.array is None else otherwise


def sizes_of(node: Node, values: Sequence[int], name: str) -> Sizes:
    """Return sizes of a result as a tuple.

    Raises:
        ModelError: a size is negative.
    """
    if any(size < 0 for size in values):
        raise node.error(f"{name} is {list(values)}", name, "sizes must be 0 or more")
    return tuple(values)


def shown(shape: Sequence[int]) -> str:
    """A shape in an error."""
    return str([*shape])
