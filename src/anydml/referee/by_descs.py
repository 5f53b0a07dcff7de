"""Runs of models of one node as DirectML's descs on one of anydml's devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from anydml.device import Device
from anydml.errors import ModelError
from anydml.feature_level import FeatureLevel
from anydml.onnx import backend
from anydml.onnx.node_descs import describe
from anydml.onnx.table import NODES
from anydml.onnx.walk import plain_domain
from anydml.operators import JoinOperatorDesc, NonzeroCoordinatesOperatorDesc, OperatorDesc
from anydml.referee.directml.cases import tensor_view
from anydml.tensor import TensorDesc
from anydml.text import count_noun

Arrays = Mapping[str, Any]

FIRST_IR = 4
"""The first version of ONNX's IR in which initializers need not be inputs."""


class NoDescError(Exception):
    """There is no desc for a case, or the desc's rules forbid it."""


def with_constants(model: ModelProto, inputs: Sequence[Any]) -> ModelProto:
    """Return a model with its inputs as initializers.

    Args:
        model: the model.
        inputs: the arrays of all the model's inputs, or of the inputs without an initializer.

    Raises:
        NoDescError: an input is not a tensor.
    """
    if not all(isinstance(array, np.ndarray) for array in inputs):
        raise NoDescError("DirectML has tensors alone, no sequences and no optional values")
    constant_names = {initializer.name for initializer in model.graph.initializer}
    names = [value_info.name for value_info in model.graph.input]
    if len(names) != len(inputs):
        names = [name for name in names if name not in constant_names]
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = max(copy.ir_version, FIRST_IR)
    del copy.graph.input[:]
    other_initializers = [initializer for initializer in copy.graph.initializer if initializer.name not in names]
    del copy.graph.initializer[:]
    constants = [numpy_helper.from_array(array, name) for name, array in zip(names, inputs, strict=True)]
    copy.graph.initializer.extend([*other_initializers, *constants])
    return copy


def outputs_by_desc(
    device: Device, model: ModelProto, inputs: Arrays, legal: Arrays = MappingProxyType({})
) -> dict[str, Any]:
    """Return the outputs of a node's desc by name, without ConcatTraining's lengths, which no desc has.

    Args:
        device: the device.
        model: a model of one node.
        inputs: arrays of the model's inputs by name; the other inputs are initializers.
        legal: arrays in place of inputs that ONNX does not allow, for the backend, which infers the outputs' types and
            ranks.

    Raises:
        NoDescError: there is no desc, or it breaks a rule.
    """
    desc = _desc_of(model)
    (node,) = model.graph.node
    expected_types = _types(model, {**inputs, **legal})
    arrays = {
        **{initializer.name: numpy_helper.to_array(initializer) for initializer in model.graph.initializer},
        **inputs,
    }
    bound = [
        _as_laid_out(array, tensor) for array, (_, tensor) in zip(_read(node, desc, arrays), desc.inputs, strict=False)
    ]
    results = [np.zeros(tensor.sizes, tensor.data_type.dtype) for _, tensor in desc.outputs]
    device.compile_operator(desc).bind(bound, results).dispatch()
    if isinstance(desc, NonzeroCoordinatesOperatorDesc):
        count, rows = results
        places = rows.reshape(rows.shape[-2:])[: count.item(), : arrays[node.input[0]].ndim]
        return {node.output[0]: places.T.astype(np.int64)}
    outputs = {}
    for name, array in zip(node.output, results, strict=False):
        if name in expected_types:
            dtype, rank = expected_types[name]
            outputs[name] = array.view(dtype).reshape(array.shape[array.ndim - rank :])
    return outputs


def _desc_of(model: ModelProto) -> OperatorDesc:
    """Return the desc of the only node of a model.

    Raises:
        NoDescError: the case has no desc.
    """
    if len(model.graph.node) != 1:
        raise NoDescError(f"the model has {count_noun(len(model.graph.node), 'node')}")
    try:
        findings = [*describe(model, min_dimensions=1)]
    except ModelError as error:
        raise NoDescError(error.rule or str(error)) from None
    if not findings:
        raise NoDescError("DirectML has no operator for it")
    finding = findings[0]
    if finding.error:
        raise NoDescError(finding.error.rule or str(finding.error))
    if finding.unchecked or finding.desc is None:
        raise NoDescError(finding.unchecked or "DirectML has no operator for it")
    desc = finding.desc
    for problem in desc.problems(FeatureLevel.LATEST):
        raise NoDescError(f"{problem.operator}'s {problem.field.partition('.')[2] or problem.field}: {problem.rule}")
    node = model.graph.node[0]
    if node.op_type == "Split" and len(desc.outputs) < len(node.output):
        raise NoDescError("DirectML has no parts without elements")
    return desc


def _types(model: ModelProto, inputs: Arrays) -> dict[str, tuple[np.dtype[Any], int]]:
    """Return the dtype and rank of each output as computed by the backend, whatever the model or case declares."""
    values = [inputs[value_info.name] for value_info in model.graph.input if value_info.name in inputs]
    outputs = backend.prepare(model).run(values)
    return {
        value_info.name: (array.dtype, array.ndim)
        for value_info, array in zip(model.graph.output, outputs, strict=True)
    }


def _read(node: NodeProto, desc: OperatorDesc, arrays: Arrays) -> list[Any]:
    """Return the inputs that are tensors of the desc; inputs that determine sizes have become fields."""
    decides = NODES[plain_domain(node.domain), node.op_type].decided_by
    inputs = [arrays[name] for k, name in enumerate(node.input) if name and k not in decides]
    # A join leaves out empty parts.
    return [array for array in inputs if array.size] if isinstance(desc, JoinOperatorDesc) else inputs


def _as_laid_out(array: Any, tensor: TensorDesc) -> Any:
    """Lay out a packed array in the type, sizes and strides of a tensor, whose type may be a stand-in."""
    flat = np.ascontiguousarray(array).reshape(-1).view(tensor.data_type.dtype)
    return tensor_view(flat, tensor)
