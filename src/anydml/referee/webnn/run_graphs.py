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
from anydml.referee.nodes import Node
from anydml.referee.protos import model_of
from anydml.referee.webnn.calls_to_nodes import NODES, call_in
from anydml.referee.webnn.operators import OPSET, Call
from anydml.referee.webnn.steps import RULES
from anydml.referee.webnn.test_files import arguments_of, array_of, outputs_of
from anydml.text import count_noun

Values = Mapping[str, Any]


def run(graph: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of a graph, in the order of `expectedOutputs`.

    Raises:
        ModelError: the graph has another operator.
        AnydmlError: a call breaks a rule.
    """
    values = {name: array_of(tensor) for name, tensor in graph["inputs"].items()}
    for operator in graph["operators"]:
        name = operator["name"]
        if name not in CALLS:
            raise ModelError(f"anydml has no {name} of WebNN", rule=f"it has {', '.join(CALLS)}")
        arguments, tensors = _arguments(operator, values)
        _check(name, tensors, arguments)
        results = CALLS[name]({**arguments, **tensors}, arguments.get("options", {}))
        names = outputs_of(operator)
        values |= zip(names, [results] if isinstance(operator["outputs"], str) else results, strict=True)
    return [values[name] for name in graph["expectedOutputs"]]


def run_by_desc(device: Device, test: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of a test of one operator, in the order of `expectedOutputs`, by the ONNX node's desc.

    Args:
        device: the device.
        test: the test.

    Raises:
        NoDescError: there is no desc.
        ModelError: a step of the method throws.
    """
    graph = test["graph"]
    if len(graph["operators"]) != 1:
        raise NoDescError(f"the test has {count_noun(len(graph['operators']), 'operator')}")
    (operator,) = graph["operators"]
    name, expected = operator["name"], graph["expectedOutputs"]
    if name not in NODES:
        raise NoDescError(f"DirectML has no operator here for {name}")
    arguments, tensors = _arguments(operator, {key: array_of(tensor) for key, tensor in graph["inputs"].items()})
    _check(name, tensors, arguments)
    if arguments.get("options", {}).get("mode") == "linear":
        raise NoDescError("linear computes")
    if not {*outputs_of(operator)} <= expected.keys():
        raise NoDescError("the test does not say which outputs it expects")
    call = call_in(test)
    node = call.node._replace(constant=frozenset(range(len(call.node.inputs))) - {*call.tensors.values()})
    for field, input_number in call.tensors.items():
        # ONNX has booleans, and no unsigned indices.
        if field == "condition":
            node = node.with_input(input_number, np.asarray(node.array(input_number) != 0))
        elif field == "indices":
            node = node.with_input(input_number, node.array(input_number).astype(np.int64))
    outputs = [array_of(expected[output]) for output in outputs_of(operator)]
    model = model_of(node, outputs)
    inputs = {f"x{input_number}": node.array(input_number) for input_number in call.tensors.values()}
    # WebNN clamps indices.
    legal = {
        f"x{input_number}": 0 * node.array(input_number)
        for field, input_number in call.tensors.items()
        if field == "indices"
    }
    outputs_found = outputs_by_desc(device, model, inputs, {name: np.asarray(array) for name, array in legal.items()})
    by_name = dict(zip(outputs_of(operator), outputs_found.values(), strict=True))
    return [by_name[output] for output in expected]


def _arguments(operator: Mapping[str, Any], values: Values) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of an operator, and those of them that are tensors as arrays."""
    arguments = arguments_of(operator)
    tensors = {key: values[value] for key, value in arguments.items() if isinstance(value, str) and value in values}
    if "inputs" in arguments:
        tensors["inputs"] = [values[value] for value in arguments["inputs"]]
    return arguments, tensors


def _check(name: str, tensors: Values, arguments_given: Values) -> None:
    """Take the steps of a method that throw: anydml's functions allow more than WebNN."""
    arrays = {key: value for key, value in tensors.items() if key != "inputs"}
    arrays |= {f"inputs[{k}]": value for k, value in enumerate(tensors.get("inputs", ()))}
    arguments = {key: value for key, value in arguments_given.items() if key not in (*tensors, "options")}
    node = Node(name, OPSET, (*arrays.values(),))
    call = Call(node, {key: k for k, key in enumerate(arrays)}, arguments, arguments_given.get("options", {}))
    for rule in RULES.get(name, ()):
        if not rule.holds(call):
            raise ModelError(f"the {rule.name} of {name} cannot be used", rule=rule.sentence)


def _slice(arguments: Values, options: Values) -> Any:
    sizes = arguments["sizes"]
    strides = options.get("strides", [1] * len(sizes))
    counts = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    return functions.slice(arguments["input"], arguments["starts"], counts, strides)


def _pad(arguments: Values, options: Values) -> Any:
    pads = [*arguments["beginningPadding"], *arguments["endingPadding"]]
    mode = options.get("mode", "constant")
    return functions.pad(arguments["input"], pads, "reflect" if mode == "reflection" else mode, options.get("value", 0))


def _resample(arguments: Values, options: Values) -> Any:
    x, axes = arguments["input"], options.get("axes", [2, 3])
    scales = options.get("scales", [1.0, 1.0])
    sizes = options.get("sizes") or [int(x.shape[axis] * scale) for axis, scale in zip(axes, scales, strict=True)]
    order = np.argsort(axes)
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=NEAREST[options.get("mode", NEAR)],
                            axes=[axes[k] for k in order])  # fmt: skip
    (resampled,) = backend.run_node(node, [x, None, None, np.array([sizes[k] for k in order])], opset_version=19)
    return resampled


def _cast(arguments: Values, options: Values) -> Any:
    type_number = helper.np_dtype_to_tensor_dtype(np.dtype(arguments["type"]))
    (cast,) = backend.run_node(
        helper.make_node("Cast", ["x"], ["y"], to=type_number), [arguments["input"]], opset_version=21
    )
    return cast


NEAR = "nearest-neighbor"
NEAREST = {NEAR: "nearest", "linear": "linear"}


def _triangular(arguments: Values, options: Values) -> Any:
    triangle = functions.triu if options.get("upper", True) else functions.tril
    return triangle(arguments["input"], options.get("diagonal", 0))


def _reverse(arguments: Values, options: Values) -> Any:
    return functions.flip(arguments["input"], options.get("axes"))


def _transpose(arguments: Values, options: Values) -> Any:
    x = arguments["input"]
    return functions.permute_dims(x, options.get("permutation", [*reversed(range(x.ndim))]))


CALLS: Mapping[str, Callable[[Values, Values], Any]] = {
    "cast": _cast,
    "concat": lambda arguments, options: functions.join(arguments["inputs"], arguments["axis"]),
    "expand": lambda arguments, options: functions.broadcast_to(arguments["input"], arguments["newShape"]),
    # WebNN clamps, as DirectML does.
    "gather": lambda arguments, options: functions.gather(
        arguments["input"], arguments["indices"], options.get("axis", 0), out_of_range="clamp"
    ),
    "gatherElements": lambda arguments, options: functions.gather_elements(
        arguments["input"], arguments["indices"], options.get("axis", 0), out_of_range="clamp"
    ),
    "gatherND": lambda arguments, options: functions.gather_nd(
        arguments["input"], arguments["indices"], out_of_range="clamp"
    ),
    "identity": lambda arguments, options: functions.copy(arguments["input"]),
    "pad": _pad,
    "resample2d": _resample,
    "reshape": lambda arguments, options: functions.copy(arguments["input"]).reshape(arguments["newShape"]),
    "reverse": _reverse,
    "scatterElements": lambda arguments, options: functions.scatter(
        arguments["input"], arguments["indices"], arguments["updates"], options.get("axis", 0)
    ),
    "scatterND": lambda arguments, options: functions.scatter_nd(
        arguments["input"], arguments["indices"], arguments["updates"]
    ),
    "slice": _slice,
    "split": lambda arguments, options: functions.split(
        arguments["input"], arguments["splits"], options.get("axis", 0)
    ),
    "tile": lambda arguments, options: functions.tile(arguments["input"], arguments["repetitions"]),
    "transpose": _transpose,
    "triangular": _triangular,
    "where": lambda arguments, options: functions.where(
        arguments["condition"] != 0, arguments["trueValue"], arguments["falseValue"]
    ),
}
"""Functions that call each operator with its arguments, where arrays stand for tensors, and its options."""
