"""WebNN's operators that move data, by the referee's formulas: random nodes of ONNX that say the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from anydml.referee.drawing import INT64_MIN, Draw
from anydml.referee.index_operators import drawn_indices
from anydml.referee.nodes import Node, wrap_index
from anydml.referee.operators import OPERATORS, results_of
from anydml.referee.shaping import draw_elements

OPSET = 24
TYPES = ("float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8")
RESAMPLED = (np.float32, np.float16, np.uint8, np.int8)
SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)


class Call(NamedTuple):
    """A call of an operator of WebNN.

    Attributes:
        node: the ONNX node that does the same.
        tensors: names of its arguments that are tensors, each with the number of the node's input.
        arguments: the others.
        options: the options.
    """

    node: Node
    tensors: Mapping[str, int]
    arguments: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}


class WebnnOperator(NamedTuple):
    """An operator of WebNN.

    Attributes:
        draw: draws a random valid call; returns None if the attempt failed.
        sentence: the sentence that decides the results.
    """

    draw: Callable[[Draw], Call | None]
    sentence: str


def _node(draw: Draw, name: str) -> Node | None:
    """Return a node of ONNX whose elements are of a type that WebNN has."""
    draw.operator, draw.opset = name, OPSET
    node = OPERATORS[name].draw(draw)
    moved = None if node is None else node.inputs[-1 if name == "Where" else 0]
    return node if isinstance(moved, np.ndarray) and moved.dtype.name in TYPES else None


def _axis(draw: Draw, node: Node, rank: int) -> dict[str, Any]:
    """Return the axis as an option, which may be omitted if it is 0."""
    axis = wrap_index(node.attribute("axis"), rank)
    return {"axis": axis} if axis or draw.is_likely(0.7) else {}


def _draw_index_type(draw: Draw, node: Node) -> Node:
    """Return the node with indices of one of the types that WebNN lists."""
    indices = node.array(1)
    types = [np.int32, np.int64, *([] if (indices < 0).any() else [np.uint32])]
    return node.with_input(1, indices.astype(draw.choice(types)))


def _concat(draw: Draw) -> Call | None:
    node = _node(draw, "Concat")
    if node is None:
        return None
    inputs = {f"inputs[{k}]": k for k in range(len(node.inputs))}
    return Call(node, inputs, {"axis": wrap_index(node.attribute("axis"), node.array(0).ndim)})


def _expand(draw: Draw) -> Call | None:
    node = _node(draw, "Expand")
    if node is None or results_of(node)[0].shape != tuple(node.integers(1)):
        return None
    return Call(node, {"input": 0}, {"newShape": node.integers(1)})


def _gather(draw: Draw) -> Call | None:
    node = _node(draw, "Gather")
    if node is None:
        return None
    return Call(_draw_index_type(draw, node), {"input": 0, "indices": 1}, {}, _axis(draw, node, node.array(0).ndim))


def _has_matching_indices(node: Node) -> bool:
    """Whether indices have the input's sizes but on the axis."""
    x, indices, axis = node.array(0), node.array(1), wrap_index(node.attribute("axis"), node.array(0).ndim)
    return all(k == axis or a == b for k, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)))


def _gather_elements(draw: Draw) -> Call | None:
    node = _node(draw, "GatherElements")
    if node is None or not _has_matching_indices(node):
        return None
    return Call(_draw_index_type(draw, node), {"input": 0, "indices": 1}, {}, _axis(draw, node, node.array(0).ndim))


def _gather_nd(draw: Draw) -> Call | None:
    node = _node(draw, "GatherND")
    if node is None or node.attribute("batch_dims"):
        return None
    return Call(_draw_index_type(draw, node), {"input": 0, "indices": 1})


def _scatter_elements(draw: Draw) -> Call | None:
    node = _node(draw, "ScatterElements")
    if node is None or not _has_matching_indices(node):
        return None
    tensors = {"input": 0, "indices": 1, "updates": 2}
    return Call(_draw_index_type(draw, node), tensors, {}, _axis(draw, node, node.array(0).ndim))


def _scatter_nd(draw: Draw) -> Call | None:
    node = _node(draw, "ScatterND")
    return None if node is None else Call(_draw_index_type(draw, node), {"input": 0, "indices": 1, "updates": 2})


def _identity(draw: Draw) -> Call | None:
    node = _node(draw, "Identity")
    return None if node is None else Call(node, {"input": 0})


def _pad(draw: Draw) -> Call | None:
    node = _node(draw, "Pad")
    if node is None or node.optional(3) is not None or min(node.integers(1), default=0) < 0:
        return None
    x, pads, mode = node.array(0), node.integers(1), node.attribute("mode")
    ends = pads[: x.ndim], pads[x.ndim :]
    if mode == "wrap" or (mode == "reflect" and any(max(e) >= n for *e, n in zip(*ends, x.shape, strict=True))):
        return None
    options: dict[str, Any] = {}
    if mode != "constant" or draw.is_likely(0.4):
        options["mode"] = "reflection" if mode == "reflect" else mode
    value = node.optional(2)
    if value is not None and mode == "constant":
        number = value.item()
        if not math.isfinite(number) or abs(number) > 2**53:
            return None
        options["value"] = number
    return Call(node, {"input": 0}, {"beginningPadding": ends[0], "endingPadding": ends[1]}, options)


def _reshape(draw: Draw) -> Call | None:
    node = _node(draw, "Reshape")
    if node is None:
        return None
    return Call(node, {"input": 0}, {"newShape": [*results_of(node)[0].shape]})


def _resample(draw: Draw) -> Call | None:
    draw.operator, draw.opset = "Resize", OPSET
    shape = tuple(draw.randint(1, 5) for _ in range(4))
    x = draw.data(np.dtype(draw.choice(RESAMPLED)), shape, is_special=False)
    axes = sorted(draw.sample(range(4), 2)) if draw.is_likely(0.4) else [2, 3]
    options: dict[str, Any] = {"axes": axes} if axes != [2, 3] or draw.is_likely(0.3) else {}
    if draw.is_likely(0.5):
        scales = [draw.choice(SCALES) for _ in axes]
        sizes = [math.floor(shape[axis] * scale) for axis, scale in zip(axes, scales, strict=True)]
        options["scales"] = scales
    else:
        options["sizes"] = sizes = [draw.randint(1, 8) for _ in axes]
    if draw.is_likely(0.5):
        options["mode"] = "nearest-neighbor"
    attributes = {"mode": "nearest", "nearest_mode": "round_prefer_floor", "axes": axes}
    return Call(Node("Resize", OPSET, (x, None, None, draw.integers(sizes)), attributes), {"input": 0}, {}, options)


def _reverse(draw: Draw) -> Call | None:
    draw.operator, draw.opset = "Slice", OPSET
    x = draw_elements(draw)
    axes = draw.subset(range(x.ndim))
    options: dict[str, Any] = {"axes": axes}
    if draw.is_likely(0.3):
        axes, options = [*range(x.ndim)], {}
    ends = [draw.integers([value] * len(axes)) for value in (-1, INT64_MIN)]
    steps = draw.integers([-1] * len(axes))
    return Call(Node("Slice", OPSET, (x, *ends, draw.integers(axes), steps)), {"input": 0}, {}, options)


def _slice(draw: Draw) -> Call | None:
    draw.operator, draw.opset = "Slice", OPSET
    x = draw_elements(draw)
    if 0 in x.shape:
        return None
    starts = [draw.randrange(size) for size in x.shape]
    sizes = [draw.randint(1, size - start) for size, start in zip(x.shape, starts, strict=True)]
    steps = [draw.choice([1, 1, 2, 3, 2**31]) for _ in sizes]
    options: dict[str, Any] = {"strides": steps}
    if draw.is_likely(0.5):
        steps, options = [1] * len(sizes), {}
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    axes = draw.integers([*range(x.ndim)])
    node = Node("Slice", OPSET, (x, draw.integers(starts), draw.integers(ends), axes, draw.integers(steps)))
    return Call(node, {"input": 0}, {"starts": starts, "sizes": sizes}, options)


def _split(draw: Draw) -> Call | None:
    node = _node(draw, "Split")
    if node is None:
        return None
    size = node.array(0).shape[node.attribute("axis")]
    splits: Any = node.outputs
    if node.optional(1) is not None:
        splits = node.integers(1)
    elif size % node.outputs:
        return None
    return Call(node, {"input": 0}, {"splits": splits}, _axis(draw, node, node.array(0).ndim))


def _tile(draw: Draw) -> Call | None:
    node = _node(draw, "Tile")
    return None if node is None else Call(node, {"input": 0}, {"repetitions": node.integers(1)})


def _transpose(draw: Draw) -> Call | None:
    node = _node(draw, "Transpose")
    if node is None:
        return None
    perm = node.attribute("perm")
    return Call(node, {"input": 0}, {}, {} if perm is None else {"permutation": perm})


def _triangular(draw: Draw) -> Call | None:
    node = _node(draw, "Trilu")
    if node is None:
        return None
    diagonal = node.integers(1)
    if diagonal and not -(2**31) <= diagonal[0] < 2**31:
        return None
    options: dict[str, Any] = {"diagonal": diagonal[0]} if diagonal else {}
    if "upper" in node.attributes:
        options["upper"] = bool(node.attribute("upper"))
    return Call(node, {"input": 0}, {}, options)


def _draw_where(draw: Draw) -> Call | None:
    node = _node(draw, "Where")
    if node is None:
        return None
    chosen = node.array(0)
    condition = np.where(chosen, drawn_indices(draw, chosen.shape, 255, np.int64) % 255 + 1, 0).astype(np.uint8)
    return Call(node.with_input(0, condition), {"condition": 0, "trueValue": 1, "falseValue": 2})


WEBNN: Mapping[str, WebnnOperator] = {
    "concat": WebnnOperator(_concat, "Concatenates the input tensors along a given axis."),
    "expand": WebnnOperator(
        _expand, "Expand any dimension of size 1 of the input tensor to a larger size according to the new shape."
    ),
    "gather": WebnnOperator(_gather, "Gather values of the input tensor along an axis according to the indices."),
    "gatherElements": WebnnOperator(
        _gather_elements, "Gather values of the input tensor along an axis according to the indices."
    ),
    "gatherND": WebnnOperator(_gather_nd, "Gather slices of the input tensor according to the indices."),
    "identity": WebnnOperator(_identity, "Copy the value of the input tensor to the output tensor, element-wise."),
    "pad": WebnnOperator(_pad, "Inflate the tensor with constant or mirrored values on the edges."),
    "resample2d": WebnnOperator(_resample, "x = ceil(inputCoordinate.x - 0.5)"),
    "reshape": WebnnOperator(
        _reshape, "The values of the output tensor are the same as values of the input tensor."
    ),
    "reverse": WebnnOperator(_reverse, "Reverse a tensor along the given axes."),
    "scatterElements": WebnnOperator(
        _scatter_elements,
        "Scatter values from the updates tensor atop a copy of the input tensor the along an axis according to the "
        "indices.",
    ),
    "scatterND": WebnnOperator(
        _scatter_nd,
        "Scatter slices of values from the update tensor atop a copy of the input tensor according to the indices.",
    ),
    "slice": WebnnOperator(_slice, "indicates the number of elements to slice in that dimension"),
    "split": WebnnOperator(_split, "Split the input tensor into a number of sub tensors along the given axis."),
    "tile": WebnnOperator(_tile, "Repeat a tensor the given number of times along each dimension."),
    "transpose": WebnnOperator(_transpose, "Permute the dimensions of the input tensor according to permutation."),
    "triangular": WebnnOperator(
        _triangular,
        "return a 2-D tensor containing either the upper or lower triangular part of the input tensor",
    ),
    "where": WebnnOperator(
        _draw_where,
        "Select the values from the trueValue or the falseValue tensor depending on the corresponding values of the "
        "condition tensor, where non-zero is true and zero is false.",
    ),
}  # fmt: skip
"""Operators by name."""
