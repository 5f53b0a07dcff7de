"""Run WebNN's graphs of operators that move data, by anydml's functions on arrays or by descs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import helper

from anydml import functions
from anydml.device import Device
from anydml.errors import ModelError
from anydml.onnx import backend
from anydml.referee.by_descs import NoDescError, outputs_by_desc
from anydml.referee.folders import model_of
from anydml.referee.nodes import Node
from anydml.referee.webnn.folders import array_of, given_to, outputs_of
from anydml.referee.webnn.operators import OPSET, Call
from anydml.referee.webnn.reading import NODES, call_in
from anydml.referee.webnn.steps import RULES
from anydml.text import counted

Values = Mapping[str, Any]


def run(graph: Mapping[str, Any]) -> list[Any]:
    """The outputs of a graph, in the order of `expectedOutputs`.

    Raises:
        ModelError: it has another operator.
        AnydmlError: a call breaks a rule.
    """
    values = {name: array_of(tensor) for name, tensor in graph["inputs"].items()}
    for each in graph["operators"]:
        name = each["name"]
        if name not in CALLS:
            raise ModelError(f"anydml has no {name} of WebNN", rule=f"it has {', '.join(CALLS)}")
        given, tensors = _arguments(each, values)
        _check(name, tensors, given)
        found = CALLS[name]({**given, **tensors}, given.get("options", {}))
        names = outputs_of(each)
        values |= zip(names, [found] if isinstance(each["outputs"], str) else found, strict=True)
    return [values[name] for name in graph["expectedOutputs"]]


def run_by_desc(device: Device, test: Mapping[str, Any]) -> list[Any]:
    """The outputs of a test with one operator, in the order of `expectedOutputs`, by the desc of the node of ONNX.

    Args:
        device: the device.
        test: the test.

    Raises:
        NoDescError: there is no desc.
        ModelError: a step of the method throws.
    """
    graph = test["graph"]
    if len(graph["operators"]) != 1:
        raise NoDescError(f"the test has {counted(len(graph['operators']), 'operator')}")
    (operator,) = graph["operators"]
    name, expected = operator["name"], graph["expectedOutputs"]
    if name not in NODES:
        raise NoDescError(f"DirectML has no operator here for {name}")
    given, tensors = _arguments(operator, {key: array_of(tensor) for key, tensor in graph["inputs"].items()})
    _check(name, tensors, given)
    if given.get("options", {}).get("mode") == "linear":
        raise NoDescError("linear computes")
    if not {*outputs_of(operator)} <= expected.keys():
        raise NoDescError("the test does not say which outputs it expects")
    call = call_in(test)
    node = call.node._replace(constant=frozenset(range(len(call.node.inputs))) - {*call.tensors.values()})
    for field, number in call.tensors.items():
        # ONNX has booleans, and no unsigned indices.
        if field == "condition":
            node = node.with_input(number, node.array(number) != 0)
        elif field == "indices":
            node = node.with_input(number, node.array(number).astype(np.int64))
    outputs = [array_of(expected[each]) for each in outputs_of(operator)]
    model = model_of(node, outputs)
    inputs = {f"x{number}": node.array(number) for number in call.tensors.values()}
    found = outputs_by_desc(device, model, inputs)
    by_name = dict(zip(outputs_of(operator), found.values(), strict=True))
    return [by_name[each] for each in expected]


def _arguments(operator: Mapping[str, Any], values: Values) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of an operator, and those of them that are tensors as arrays."""
    given = given_to(operator)
    tensors = {key: values[value] for key, value in given.items() if isinstance(value, str) and value in values}
    if "inputs" in given:
        tensors["inputs"] = [values[value] for value in given["inputs"]]
    return given, tensors


def _check(name: str, tensors: Values, given: Values) -> None:
    """Take the steps of a method that throw: anydml's functions allow more than WebNN."""
    arrays = {key: value for key, value in tensors.items() if key != "inputs"}
    arrays |= {f"inputs[{k}]": value for k, value in enumerate(tensors.get("inputs", ()))}
    arguments = {key: value for key, value in given.items() if key not in (*tensors, "options")}
    node = Node(name, OPSET, (*arrays.values(),))
    call = Call(node, {key: k for k, key in enumerate(arrays)}, arguments, given.get("options", {}))
    for rule in RULES.get(name, ()):
        if not rule.holds(call):
            raise ModelError(f"the {rule.name} of {name} cannot be used", rule=rule.sentence)


def _slice(given: Values, options: Values) -> Any:
    sizes = given["sizes"]
    strides = options.get("strides", [1] * len(sizes))
    taken = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    return functions.slice(given["input"], given["starts"], taken, strides)


def _pad(given: Values, options: Values) -> Any:
    pads = [*given["beginningPadding"], *given["endingPadding"]]
    mode = options.get("mode", "constant")
    return functions.pad(given["input"], pads, "reflect" if mode == "reflection" else mode, options.get("value", 0))


def _resample(given: Values, options: Values) -> Any:
    x, axes = given["input"], options.get("axes", [2, 3])
    scales = options.get("scales", [1.0, 1.0])
    sizes = options.get("sizes") or [int(x.shape[axis] * scale) for axis, scale in zip(axes, scales, strict=True)]
    order = np.argsort(axes)
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=NEAREST[options.get("mode", NEAR)],
                            axes=[axes[k] for k in order])  # fmt: skip
    (found,) = backend.run_node(node, [x, None, None, np.array([sizes[k] for k in order])], opset_version=19)
    return found


def _cast(given: Values, options: Values) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(given["type"]))
    (found,) = backend.run_node(helper.make_node("Cast", ["x"], ["y"], to=kind), [given["input"]], opset_version=21)
    return found


NEAR = "nearest-neighbor"
NEAREST = {NEAR: "nearest", "linear": "linear"}


def _triangular(given: Values, options: Values) -> Any:
    triangle = functions.triu if options.get("upper", True) else functions.tril
    return triangle(given["input"], options.get("diagonal", 0))


def _reverse(given: Values, options: Values) -> Any:
    return functions.flip(given["input"], options.get("axes"))


def _transpose(given: Values, options: Values) -> Any:
    x = given["input"]
    return functions.permute_dims(x, options.get("permutation", [*reversed(range(x.ndim))]))


CALLS: Mapping[str, Callable[[Values, Values], Any]] = {
    "cast": _cast,
    "concat": lambda given, options: functions.join(given["inputs"], given["axis"]),
    "expand": lambda given, options: functions.broadcast_to(given["input"], given["newShape"]),
    # WebNN clamps, as DirectML does.
    "gather": lambda given, options: functions.gather(
        given["input"], given["indices"], options.get("axis", 0), out_of_range="clamp"
    ),
    "gatherElements": lambda given, options: functions.gather_elements(
        given["input"], given["indices"], options.get("axis", 0), out_of_range="clamp"
    ),
    "gatherND": lambda given, options: functions.gather_nd(given["input"], given["indices"], out_of_range="clamp"),
    "identity": lambda given, options: functions.copy(given["input"]),
    "pad": _pad,
    "resample2d": _resample,
    "reshape": lambda given, options: functions.copy(given["input"]).reshape(given["newShape"]),
    "reverse": _reverse,
    "scatterElements": lambda given, options: functions.scatter(
        given["input"], given["indices"], given["updates"], options.get("axis", 0)
    ),
    "scatterND": lambda given, options: functions.scatter_nd(given["input"], given["indices"], given["updates"]),
    "slice": _slice,
    "split": lambda given, options: functions.split(given["input"], given["splits"], options.get("axis", 0)),
    "tile": lambda given, options: functions.tile(given["input"], given["repetitions"]),
    "transpose": _transpose,
    "triangular": _triangular,
    "where": lambda given, options: functions.where(given["condition"] != 0, given["trueValue"], given["falseValue"]),
}
"""What calls each operator, by its arguments, with arrays in place of tensors, and its options."""
