"""Types that a model declares: nodes must take those of their inputs, and make those of their outputs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx.shape_inference
from onnx import GraphProto, ModelProto, TensorProto, TypeProto, helper

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.onnx.checks import MAX_BYTES, check, inline_functions, reason
from anydml.onnx.tensor_protos import tensor_shape, type_name
from anydml.onnx.walk import bodies

MAX_CONSTANT_BYTES = 4096
"""Largest constant whose elements are used, such as a shape."""


def check_types(model: ModelProto) -> None:
    """Check the types of a model's values, as runtimes do before they run it. Sizes are not compared: runtimes do not.

    Args:
        model: a model that onnx's checker accepts; one with functions that cannot be inlined is not checked.

    Raises:
        ModelError: a node does not take the type of an input, or makes another type than the model declares.
    """
    if model.functions:
        try:
            model = inline_functions(model)
        except ModelError:
            # Callers that read functions refuse the model.
            return
        # Calls of functions may pass attributes of types that the nodes inside do not accept.
        check(model)
    undeclared = _without_declarations(model)
    if undeclared.ByteSize() > MAX_BYTES:
        return
    try:
        inferred = onnx.shape_inference.infer_shapes(undeclared, check_type=True)
    except Exception as error:  # onnx raises errors of several types
        raise ModelError(f"a node does not take the types of its inputs: {reason(error)}") from None
    inferred_types = _types(inferred.graph)
    for name, declared in _types(model.graph).items():
        kinds = [_kind(kind) for kind in (declared, inferred_types.get(name, declared))]
        if kinds[0] != kinds[1]:
            advice = f"declare {kinds[1]}, or leave the declaration out"
            message = f"{show(name)} is declared as {kinds[0]}, but the model makes {kinds[1]} of it: {advice}"
            raise ModelError(message, field=name, rule="values must have the types that are declared")


def _without_declarations(model: ModelProto) -> ModelProto:
    """Return a model without large constants, and without declared types of the values that its nodes make."""
    copy = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    copy.graph.name = model.graph.name
    copy.graph.node.extend(model.graph.node)
    copy.graph.input.extend(model.graph.input)
    copy.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    copy.graph.output.extend(model.graph.output)
    for body in bodies([copy.graph]):
        assert isinstance(body, GraphProto), "functions are left out"
        del body.value_info[:]
        for value in body.output:
            value.ClearField("type")
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL and tensor.ByteSize() <= MAX_CONSTANT_BYTES:
            copy.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            shape = tensor_shape(tensor)
            copy.graph.value_info.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))
    return copy


def _types(graph: GraphProto) -> dict[str, TypeProto]:
    """Return the types of values in a graph and its bodies, as far as they are known."""
    return {name: type_proto for name, type_proto in _every_type(graph) if type_proto.WhichOneof("value") is not None}


def _every_type(graph: GraphProto) -> Iterator[tuple[str, TypeProto]]:
    for body in bodies([graph]):
        assert isinstance(body, GraphProto), "it is no function"
        for value in (*body.output, *body.value_info):
            yield value.name, value.type


def _kind(type_proto: TypeProto) -> str:
    """Return the name of a type without sizes."""
    value = type_proto.WhichOneof("value")
    if value in ("tensor_type", "sparse_tensor_type"):
        return type_name(getattr(type_proto, value).elem_type)
    return (value or "").removesuffix("_type")
