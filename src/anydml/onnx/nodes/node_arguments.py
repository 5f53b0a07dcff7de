"""Read and check inputs of nodes: lists, scalars, axes, sizes and indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.moves.move import OutOfRange
from anydml.moves.wrapped_indices import out_of_range
from anydml.onnx.graph import Node, with_verb
from anydml.onnx.graph_values import Sizes, Tensor
from anydml.onnx.lowering import LoweringContext

INDEX_BYTES = 48
"""Upper bound of the memory in bytes for creating an index."""


def elements_of(node: Node, ctx: LoweringContext, tensor: Tensor | None, name: str) -> Any:
    """Return the elements of a one-dimensional input as a list; if it is omitted, the attribute of this name, or None.

    Many inputs were attributes in the first versions of their operators.

    Raises:
        ModelError: the input has another rank.
    """
    if tensor is None:
        return node.get(name)
    if len(tensor.shape) != 1:
        message = f"{with_verb(name)} {tensor.dtype} of shape {list(tensor.shape)}"
        raise node.unenforced(message, name, f"{name} must be one-dimensional")
    return ctx.known_elements(node, tensor, name).tolist()


def scalar(node: Node, ctx: LoweringContext, tensor: Tensor, name: str) -> Any:
    """Return the element of a tensor with one element.

    Raises:
        ModelError: the tensor has none, or several.
    """
    if tensor.size != 1:
        raise node.error(f"{name} has shape {list(tensor.shape)}", name, f"{name} must be a scalar")
    return ctx.known_elements(node, tensor, name).reshape(()).item()


def axes_of(node: Node, axes: Sequence[int] | None, rank: int, may_repeat: bool = False) -> list[int]:
    """Normalize axes to 0 … rank − 1, in the given order; None stands for all axes.

    Raises:
        ModelError: an axis is out of range, or repeats although `may_repeat` is False.
    """
    checked: list[int] = []
    for axis in range(rank) if axes is None else axes:
        if not -rank <= axis < rank:
            rule = f"axes must be {-rank} to {rank - 1}"
            raise node.error(f"axes has {axis}, but the rank is {rank}", "axes", rule)
        if axis % rank in checked and not may_repeat:
            raise node.error(f"axes {list(axes or ())} has axis {axis % rank} twice", "axes", "axes must not repeat")
        checked.append(axis % rank)
    return checked


def check_range(
    node: Node,
    ctx: LoweringContext,
    indices: Tensor,
    size: int,
    axis: int,
    column: int | None = None,
    is_checked: bool = True,
) -> None:
    """Check that indices are in the range of an axis, if they are known; negative ones count from its end.

    Args:
        node: the node.
        ctx: reads the indices.
        indices: all indices; only those of a column of the last axis if `column` is given.
        size: size of the axis.
        axis: the axis.
        column: 0 to the last size − 1.
        is_checked: whether moves check indices that are not known; no elements are moved where the result is empty.

    Raises:
        ModelError: an index is out of range.
        UnknownElementsError: nothing else checks the indices, which are only known at run time.
    """
    if not (ctx.fetch_optional(indices) if is_checked else ctx.fetch(indices)) or indices.array is None:
        return
    coordinates = indices.array if column is None else indices.array[..., column]
    for index in (int(coordinates.min()), int(coordinates.max())) if coordinates.size else ():
        if not -size <= index < size:
            raise node.error(out_of_range(index, size, axis=f"axis {axis}"), "indices")


def out_of_range_treatment(indices: Tensor, otherwise: OutOfRange = "clamp") -> OutOfRange:
    """Return how lookups treat indices out of range: refuse them, unless `check_range` has checked them already."""
    return "error" if indices.array is None else otherwise


def sizes_of(node: Node, values: Sequence[int], name: str) -> Sizes:
    """Return sizes of a result as a tuple.

    Raises:
        ModelError: a size is negative.
    """
    if any(size < 0 for size in values):
        raise node.error(f"{name} is {list(values)}", name, "sizes must be 0 or more")
    return tuple(values)
