"""Smaller nodes: without an axis and its entries in lists such as starts, pads, scales and perm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.referee.nodes import Array, Node, TensorList, wrap_index


class Lists(NamedTuple):
    """Inputs with entries per axis.

    Attributes:
        entries: pairs of an input's number and the number of its entries per axis.
        axes: the number of the input that lists the axes; None if an attribute does, or nothing.
    """

    entries: tuple[tuple[int, int], ...] = ()
    axes: int | None = None


LISTS: Mapping[str, Lists] = {
    "CenterCropPad": Lists(((1, 1),)),
    "Pad": Lists(((1, 2),), 3),
    "Resize": Lists(((1, 2), (2, 1), (3, 1))),
    "Slice": Lists(((1, 1), (2, 1), (4, 1)), 3),
    "Squeeze": Lists((), 1),
    "Tile": Lists(((1, 1),)),
    "Transpose": Lists(),
    "Unsqueeze": Lists((), 1),
}
"""The lists of each operator's nodes."""

AXES = ("axis", "batch_axis", "time_axis")
"""Attributes whose value is an axis."""


def of_fewer_entries(node: Node) -> Iterator[Node]:
    """Yield a node without an axis and its list entries, without the entries only, or with one part or tensor less."""
    lists = LISTS.get(node.operator)
    if lists is not None:
        axes = _axes(node, lists)
        for axis in range(node.array(0).ndim) if node.operator != "Unsqueeze" else ():
            yield from _without_axis(node, lists, axes, axis)
        if _has_axes(node, lists) or node.operator == "Slice":
            for k in range(len(axes)):
                yield _with_axes(_without_entry(node, lists, k), lists, [*axes[:k], *axes[k + 1 :]])
    yield from _of_fewer_parts(node)
    for k, value in enumerate(node.inputs):
        if isinstance(value, TensorList):
            for at in range(len(value.tensors)):
                remaining = (*value.tensors[:at], *value.tensors[at + 1 :])
                yield node.with_input(k, TensorList(value.dtype, remaining))


def _has_axes(node: Node, lists: Lists) -> bool:
    return "axes" in node.attributes or (lists.axes is not None and node.optional(lists.axes) is not None)


def _axes(node: Node, lists: Lists) -> list[int]:
    """Return the axes that have entries."""
    if "axes" in node.attributes:
        return list(node.attributes["axes"])
    if lists.axes is not None and node.optional(lists.axes) is not None:
        return node.integers(lists.axes)
    return [*range(len(node.integers(1)) if node.operator == "Slice" else node.array(0).ndim)]


def _with_axes(node: Node, lists: Lists, axes: Sequence[int]) -> Node:
    """Return the node with another list of axes, if it has one."""
    if "axes" in node.attributes:
        return node._replace(attributes={**node.attributes, "axes": [*axes]})
    if lists.axes is None or node.optional(lists.axes) is None:
        return node
    return node.with_input(lists.axes, np.array(axes, node.array(lists.axes).dtype))


def _without_entry(node: Node, lists: Lists, k: int) -> Node:
    """Return the node without the entries of the k-th listed axis."""
    for input_number, times in lists.entries:
        value = node.optional(input_number)
        if value is not None and value.size:
            stride = value.size // times
            node = node.with_input(input_number, np.delete(value, [k + stride * block for block in range(times)]))
    return node


def _without_axis(node: Node, lists: Lists, axes: Sequence[int], axis: int) -> Iterator[Node]:
    x = node.array(0)
    rank = x.ndim
    smaller = node
    places = [k for k, entry in enumerate(axes) if wrap_index(entry, rank) == axis]
    for k in places:
        smaller = _without_entry(smaller, lists, k)
    remaining = [shift_axis(entry, axis, rank) for k, entry in enumerate(axes) if k not in places]
    smaller = shifted_axes(_with_axes(smaller, lists, remaining), axis, rank)
    if "perm" in smaller.attributes:
        order = [old_axis - (old_axis > axis) for old_axis in smaller.attributes["perm"] if old_axis != axis]
        smaller = smaller._replace(attributes={**smaller.attributes, "perm": order})
    for at in dict.fromkeys((0, x.shape[axis] - 1)) if x.shape[axis] else ():
        yield smaller.with_input(0, _take(x, at, axis))


def _take(x: Array, at: int, axis: int) -> Any:
    picked = np.empty((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)
    picked[...] = np.take(x, at, axis)
    return picked


def shift_axis(axis_of_input: int, axis: int, rank: int) -> int:
    """Return the number of an axis after another axis was removed; negative numbers stay negative."""
    new_axis = wrap_index(axis_of_input, rank)
    new_axis -= new_axis > axis
    return new_axis - (rank - 1) if axis_of_input < 0 else new_axis


def shifted_axes(node: Node, axis: int, rank: int) -> Node:
    """Return the node with its attributes naming the same axes after one was removed."""
    named = {name: shift_axis(node.attributes[name], axis, rank) for name in AXES if name in node.attributes}
    return node._replace(attributes={**node.attributes, **named})


def _of_fewer_parts(node: Node) -> Iterator[Node]:
    """Yield a Split without one of its parts, of an input without that part."""
    if node.operator not in ("Split", "SplitToSequence"):
        return
    x = node.array(0)
    axis = wrap_index(node.attribute("axis"), x.ndim)
    parts = node.attributes.get("split") or node.integers(1)
    for k, size in enumerate(parts if len(parts) > 1 else ()):
        first, remaining = sum(parts[:k]), [*parts[:k], *parts[k + 1 :]]
        smaller = node.with_input(0, np.delete(x, slice(first, first + size), axis))
        if "split" in node.attributes:
            smaller = smaller._replace(attributes={**node.attributes, "split": remaining})
        else:
            smaller = smaller.with_input(1, np.array(remaining, node.array(1).dtype))
        yield smaller._replace(outputs=node.outputs - 1) if node.operator == "Split" else smaller
