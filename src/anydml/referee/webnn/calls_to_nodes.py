"""Read calls of WebNN's operators: the node of ONNX that says the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anydml.referee.drawing import INT64_MIN
from anydml.referee.nodes import Array, Node
from anydml.referee.webnn.operators import OPSET, Call
from anydml.referee.webnn.test_files import arguments_of, array_of

Values = Mapping[str, Any]


def call_of(name: str, arrays: Mapping[str, Array], arguments: Values, options: Values) -> Call:
    """Return a call, made from its parts.

    Args:
        name: the operator.
        arrays: the arguments that are tensors, by name, `inputs[0]` and so on for a list.
        arguments: the others.
        options: the options.
    """
    node = NODES[name]([*arrays.values()], arguments, options)
    return Call(node, {array: k for k, array in enumerate(arrays)}, dict(arguments), dict(options))


def call_in(test: Mapping[str, Any]) -> Call:
    """Return the call of a test with one operator."""
    (operator,) = test["graph"]["operators"]
    tensors = {name: array_of(value) for name, value in test["graph"]["inputs"].items()}
    arguments_by_name = arguments_of(operator)
    options = arguments_by_name.pop("options", {})
    arrays: dict[str, Array] = {
        f"inputs[{k}]": tensors[value] for k, value in enumerate(arguments_by_name.pop("inputs", ()))
    }
    arrays |= {key: tensors[value] for key, value in arguments_by_name.items() if isinstance(value, str)}
    arguments = {key: value for key, value in arguments_by_name.items() if not isinstance(value, str)}
    return call_of(operator["name"], arrays, arguments, options)


def _vector(values: Sequence[int]) -> Array:
    return np.array(values, np.int64).reshape(len(values))


def _with_axis(operator: str) -> Callable[[list[Array], Values, Values], Node]:
    return lambda arrays, arguments, options: Node(operator, OPSET, (*arrays,), {"axis": options.get("axis", 0)})


def _of_list(operator: str, field: str) -> Callable[[list[Array], Values, Values], Node]:
    return lambda arrays, arguments, options: Node(operator, OPSET, (arrays[0], _vector(arguments[field])))


def _concat(arrays: list[Array], arguments: Values, options: Values) -> Node:
    return Node("Concat", OPSET, (*arrays,), {"axis": arguments["axis"]})


def _pad(arrays: list[Array], arguments: Values, options: Values) -> Node:
    mode = options.get("mode", "constant")
    value = np.array(options["value"]).astype(arrays[0].dtype) if "value" in options else None
    pads = _vector([*arguments["beginningPadding"], *arguments["endingPadding"]])
    return Node("Pad", OPSET, (arrays[0], pads, value), {"mode": "reflect" if mode == "reflection" else mode})


def _resample(arrays: list[Array], arguments: Values, options: Values) -> Node:
    axes = options.get("axes", [2, 3])
    sizes = options.get("sizes")
    if sizes is None:
        scales = options.get("scales", [1.0, 1.0])
        sizes = [int(arrays[0].shape[axis] * scale) for axis, scale in zip(axes, scales, strict=True)]
    attributes = {"mode": "nearest", "nearest_mode": "round_prefer_floor", "axes": [*axes]}
    return Node("Resize", OPSET, (arrays[0], None, None, _vector(sizes)), attributes)


def _reverse(arrays: list[Array], arguments: Values, options: Values) -> Node:
    axes = options.get("axes", [*range(arrays[0].ndim)])
    ends = [_vector([value] * len(axes)) for value in (-1, INT64_MIN)]
    return Node("Slice", OPSET, (arrays[0], *ends, _vector(axes), _vector([-1] * len(axes))))


def _slice(arrays: list[Array], arguments: Values, options: Values) -> Node:
    starts, sizes = arguments["starts"], arguments["sizes"]
    steps = options.get("strides", [1] * len(sizes))
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    return Node("Slice", OPSET, (arrays[0], *map(_vector, (starts, ends, range(len(sizes)), steps))))


def _split(arrays: list[Array], arguments: Values, options: Values) -> Node:
    splits, axis = arguments["splits"], {"axis": options.get("axis", 0)}
    if isinstance(splits, int):
        return Node("Split", OPSET, (arrays[0],), {**axis, "num_outputs": splits}, splits)
    return Node("Split", OPSET, (arrays[0], _vector(splits)), axis, len(splits))


def _transpose(arrays: list[Array], arguments: Values, options: Values) -> Node:
    return Node("Transpose", OPSET, (arrays[0],), {"perm": options["permutation"]} if "permutation" in options else {})


def _triangular(arrays: list[Array], arguments: Values, options: Values) -> Node:
    upper = {"upper": int(options["upper"])} if "upper" in options else {}
    return Node("Trilu", OPSET, (arrays[0], np.array(options.get("diagonal", 0))), upper)


NODES: Mapping[str, Callable[[list[Array], Values, Values], Node]] = {
    "concat": _concat,
    "expand": _of_list("Expand", "newShape"),
    "gather": _with_axis("Gather"),
    "gatherElements": _with_axis("GatherElements"),
    "gatherND": lambda arrays, arguments, options: Node("GatherND", OPSET, (*arrays,)),
    "identity": lambda arrays, arguments, options: Node("Identity", OPSET, (*arrays,)),
    "pad": _pad,
    "resample2d": _resample,
    "reshape": _of_list("Reshape", "newShape"),
    "reverse": _reverse,
    "scatterElements": _with_axis("ScatterElements"),
    "scatterND": lambda arrays, arguments, options: Node("ScatterND", OPSET, (*arrays,)),
    "slice": _slice,
    "split": _split,
    "tile": _of_list("Tile", "repetitions"),
    "transpose": _transpose,
    "triangular": _triangular,
    "where": lambda arrays, arguments, options: Node("Where", OPSET, (*arrays,)),
}
"""Functions that make the node of a call from its tensors, its other arguments, and its options."""
