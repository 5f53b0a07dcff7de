"""What removing movement can save of a model: ONNX Runtime's time for the nodes that compute, without the others.

The model is taken as ONNX Runtime optimizes it. Each value that a node of movement makes is an input of what is left,
so that all nodes that compute read the same numbers as before. A tool is faster than that only if it changes nodes that
compute, or what ONNX Runtime fuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from benchmarks.slim import FREE, GROWING, PICKING, Feeds, Run, options

MOVING = FREE | GROWING | PICKING | {"Cast", "Constant", "ConstantOfShape", "GatherElements", "GatherND", "Range"}
"""Operators that move or make elements, and compute none."""


def compute_alone(path: Path, given: Feeds, folder: Path) -> Run:
    """Return a function that runs the nodes of a model that compute numbers of floats.

    Args:
        path: the model.
        given: its inputs.
        folder: a folder for the model as ONNX Runtime optimizes it.
    """
    levels, providers = onnxruntime.GraphOptimizationLevel, ["CPUExecutionProvider"]
    chosen, saved = options(levels.ORT_ENABLE_ALL), folder / "optimized.onnx"
    chosen.optimized_model_filepath = str(saved)
    onnxruntime.InferenceSession(str(path), chosen, providers=providers)
    model = onnx.load(saved)
    values = {**given, **_values(model, given)}
    nodes = [node for node in model.graph.node if not _moves(node, values)]
    made = {name for node in nodes for name in node.output}
    known = made | {tensor.name for tensor in model.graph.initializer} | {""}
    read = dict.fromkeys(name for node in nodes for name in node.input if name not in known)
    last = nodes[-1].output[0]
    graph = model.graph
    for field in (graph.node, graph.input, graph.output, graph.value_info):
        del field[:]
    graph.node.extend(nodes)
    graph.input.extend(_declared(name, values[name]) for name in read)
    graph.output.append(_declared(last, values[last]))
    # The optimized model is not optimized again: nothing of it becomes a constant, and unread results are computed.
    none = options(levels.ORT_DISABLE_ALL)
    session = onnxruntime.InferenceSession(model.SerializeToString(), none, providers=providers)
    bound = session.io_binding()
    for name in read:
        bound.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values[name])))
    bound.bind_output(last)
    return lambda: session.run_with_iobinding(bound)


def _values(model: onnx.ModelProto, given: Feeds) -> dict[str, Any]:
    """Return what all nodes of an optimized model make."""
    known = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in known]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    none = options(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    session = onnxruntime.InferenceSession(whole.SerializeToString(), none, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, given), strict=True))


def _moves(node: onnx.NodeProto, values: dict[str, Any]) -> bool:
    """Whether a node moves elements, or computes sizes, indices or masks of these."""
    operands = [values[name] for name in (*node.input, *node.output) if name in values]
    return node.op_type in MOVING or all(value.dtype.kind in "iub" for value in operands)


def _declared(name: str, value: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
