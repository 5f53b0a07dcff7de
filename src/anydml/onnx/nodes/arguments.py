"""Inputs of nodes: those that must be there, and those whose elements are sizes, axes or other numbers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.moves.move import Outside
from anydml.onnx.graph import Node
from anydml.onnx.moving import Moving
from anydml.onnx.values import Array, Flowing, Sizes, Tensor, Tensors
from anydml.tracing.sizes import is_open

Inputs = Sequence[Flowing | None]


def required(node: Node, inputs: Inputs, index: int, name: str) -> Tensor:
    """An input that must be there.

    Raises:
        ModelError: it is not, or it is a sequence.
    """
    value = optional(node, inputs, index, name)
    if value is None:
        raise node.error(f"input {index} ({name}) is missing", name, f"{name} is required")
    return value


def optional(node: Node, inputs: Inputs, index: int, name: str) -> Tensor | None:
    """An input that need not be there.

    Raises:
        ModelError: it is a sequence.
    """
    value = inputs[index] if index < len(inputs) else None
    if isinstance(value, Tensors):
        raise node.error(f"input {index} ({name}) is a sequence", name, f"{name} must be a tensor")
    return value


def sequence(node: Node, inputs: Inputs, index: int, name: str) -> Tensors:
    """An input that is a sequence.

    Raises:
        ModelError: it is missing, or a tensor.
    """
    value = inputs[index] if index < len(inputs) else None
    if not isinstance(value, Tensors):
        raise node.error(f"input {index} ({name}) is no sequence", name, f"{name} must be a sequence")
    return value


def vector(node: Node, at: Moving, inputs: Inputs, index: int, name: str) -> list[int] | None:
    """The elements of an input that is one-dimensional, INT32 or INT64; None where it is not given.

    Raises:
        ModelError: it has another type or rank.
    """
    tensor = optional(node, inputs, index, name)
    return None if tensor is None else integer_list(node, at, tensor, name)


def integer_list(node: Node, at: Moving, tensor: Tensor, name: str) -> list[int]:
    """The elements of a one-dimensional integer tensor.

    Raises:
        ModelError: it has another type or rank.
    """
    if tensor.dtype not in (np.int32, np.int64) or len(tensor.shape) != 1:
        what = f"{name} is {tensor.dtype} of shape {list(tensor.shape)}"
        raise node.error(what, name, f"{name} must be one-dimensional, INT32 or INT64")
    found: list[int] = at.known(node, tensor, name).tolist()
    return found


def scalar(node: Node, at: Moving, tensor: Tensor, name: str) -> Any:
    """The element of an input that has one.

    Raises:
        ModelError: it has none, or several.
    """
    if tensor.size != 1:
        raise node.error(f"{name} has shape {list(tensor.shape)}", name, f"{name} must be a scalar")
    return at.known(node, tensor, name).reshape(()).item()


def whole(node: Node, at: Moving, tensor: Tensor, name: str) -> int:
    """The element of an integer input that has one.

    Raises:
        ModelError: it has none, several, or is of another type.
    """
    value = scalar(node, at, tensor, name)
    if tensor.dtype.kind not in "iu":
        raise node.error(f"{name} is {tensor.dtype}", name, f"{name} must be an integer")
    return value if is_open((value,)) else operator.index(value)


def axes_of(node: Node, axes: Sequence[int], rank: int, name: str = "axes", may_repeat: bool = False) -> list[int]:
    """Axes from 0 to rank − 1, in the order given.

    Raises:
        ModelError: one is outside, or there twice and may not be.
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
    """Inputs of one type.

    Raises:
        ModelError: one differs.
    """
    for name, tensor in others:
        if tensor.dtype != first[1].dtype:
            message = f"{name} is {tensor.dtype}, but {first[0]} is {first[1].dtype}"
            raise node.error(message, name, "both must have one type")


def index_type(node: Node, tensor: Tensor, name: str = "indices") -> None:
    """Indices of a type that ONNX has for them.

    Raises:
        ModelError: they are of another one.
    """
    if tensor.dtype not in (np.int32, np.int64):
        raise node.error(f"{name} are {tensor.dtype}", name, f"{name} must be INT32 or INT64")


def check_range(node: Node, indices: Array, size: int, axis: int, name: str = "indices") -> None:
    """Indices inside an axis; negative ones count from its end.

    Raises:
        ModelError: one is outside.
    """
    if not indices.size:
        return
    for index in (int(indices.min()), int(indices.max())):
        if not -size <= index < size:
            message = f"index {index} is out of range for axis {axis} with size {size}"
            raise node.error(message, name, f"{name} must be {-size} to {size - 1}")


def outside(indices: Tensor, otherwise: Outside = "clamp") -> Outside:
    """What happens at an index outside: it is refused, unless all have been looked at (see `check_range`)."""
    return "refuse" if indices.array is None else otherwise


def sizes_of(node: Node, values: Sequence[int], name: str) -> Sizes:
    """Sizes of a result.

    Raises:
        ModelError: one is negative.
    """
    if any(size < 0 for size in values):
        raise node.error(f"{name} is {list(values)}", name, "sizes must be 0 or more")
    return tuple(values)


def shown(shape: Sequence[int]) -> str:
    """A shape in an error."""
    return str([*shape])
