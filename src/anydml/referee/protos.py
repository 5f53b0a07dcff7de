"""Models, types and values as ONNX's messages, and reading of these from files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import OptionalProto, SequenceProto, TensorProto, helper, numpy_helper

from anydml.errors import ModelError
from anydml.referee.cases import engine_value
from anydml.referee.nodes import Node, OptionalValue, TensorList, Value
from anydml.referee.schema_texts import element_type, schema


def model_of(node: Node, outputs: Sequence[Value], has_ranks: bool = True) -> onnx.ModelProto:
    """Return the model of one node.

    Args:
        node: the node.
        outputs: values of the same types as its outputs.
        has_ranks: whether the model declares their ranks, too; it never declares sizes.
    """
    names = ["" if value is None else f"x{k}" for k, value in enumerate(node.inputs)]
    results = [f"y{k}" for k in range(len(outputs))]
    proto = helper.make_node(node.operator, names, results, name=node.operator)
    declared = schema(node.operator, node.opset).attributes
    for name, value in node.attributes.items():
        tensor = numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value
        # An empty list has no type.
        proto.attribute.append(helper.make_attribute(name, tensor, attr_type=int(declared[name].type.value)))
    infos, constants = [], []
    for k, (name, value) in enumerate(zip(names, node.inputs, strict=True)):
        if value is None:
            continue
        if k in node.constant:
            constants.append(numpy_helper.from_array(node.array(k), name))
        else:
            sizes = value.shape if isinstance(value, np.ndarray) else None
            infos.append(helper.make_value_info(name, type_of(value, sizes)))
    types = [
        helper.make_value_info(
            name, type_of(value, [None] * value.ndim if isinstance(value, np.ndarray) and has_ranks else None)
        )
        for name, value in zip(results, outputs, strict=True)
    ]
    graph = helper.make_graph([proto], node.operator, infos, types, constants)
    opsets = [helper.make_opsetid("", node.opset)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets), producer_name="anydml"
    )


def type_of(value: Value, sizes: Any) -> onnx.TypeProto:
    """Return ONNX's type of a value; that of a tensor has sizes, which may be None."""
    proto = helper.make_tensor_type_proto(element_type(value.dtype), sizes)
    is_sequence = value.is_sequence if isinstance(value, OptionalValue) else isinstance(value, TensorList)
    if is_sequence:
        proto = helper.make_sequence_type_proto(proto)
    return helper.make_optional_type_proto(proto) if isinstance(value, OptionalValue) else proto


def message_of(value: Value, name: str) -> Any:
    """Return a value as ONNX's message, under a name."""
    match value:
        case TensorList():
            return numpy_helper.from_list([*value.tensors], name, int(SequenceProto.TENSOR))
        case OptionalValue():
            return numpy_helper.from_optional(engine_value(value), name)
    return numpy_helper.from_array(value, name)


def load_values(folder: Path, prefix: str, infos: Iterable[onnx.ValueInfoProto]) -> list[Any]:
    """Return the values of a folder's files of a kind, in order: arrays, lists, or None for empty optional values.

    Args:
        folder: the folder.
        prefix: "input" or "output".
        infos: the graph's declarations of the values.
    """
    types = [info.type for info in infos]
    paths = [folder / f"{prefix}_{k}.pb" for k in range(len([*folder.glob(f"{prefix}_*.pb")]))]
    if missing := next((path for path in paths if not path.exists()), None):
        raise ModelError(f"there is no {missing}", rule="files are counted from 0")
    return [read_value(path, types[k] if k < len(types) else onnx.TypeProto()) for k, path in enumerate(paths)]


def read_model(path: Path) -> onnx.ModelProto:
    """Read a model file, without its external data.

    Raises:
        ModelError: the file has none.
    """
    try:
        return onnx.load(path, load_external_data=False)
    except (DecodeError, OSError, ValueError):
        raise ModelError(f"{path} is not a model of ONNX", rule="a case has its model there") from None


def fits_info(type_proto: onnx.TypeProto, value: Any) -> bool:
    """Whether a tensor has the type and the known sizes that the model declares; True for other values."""
    if type_proto.WhichOneof("value") != "tensor_type" or not isinstance(value, np.ndarray):
        return True
    tensor = type_proto.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if value.dtype != dtype and not (value.dtype.hasobject and np.dtype(dtype).hasobject):
        return False
    sizes = tensor.shape.dim
    return not tensor.HasField("shape") or (
        len(sizes) == value.ndim
        and all(
            not dim.HasField("dim_value") or dim.dim_value == size for dim, size in zip(sizes, value.shape, strict=True)
        )
    )


def read_value(path: Path, type_proto: onnx.TypeProto) -> Any:
    """Return the value of a file.

    Raises:
        ModelError: the file has none of that type.
    """
    form = type_proto.WhichOneof("value")
    reads: dict[str | None, tuple[Any, Callable[[Any], Any], str]] = {
        "sequence_type": (SequenceProto, numpy_helper.to_list, "a sequence"),
        "optional_type": (OptionalProto, numpy_helper.to_optional, "an optional value"),
    }
    message, read, noun = reads.get(form, (TensorProto, numpy_helper.to_array, "a tensor"))
    try:
        # An empty file would also be an optional value without an element.
        proto = message.FromString(path.read_bytes() or b"-")
        if isinstance(proto, TensorProto) and (any(size < 0 for size in proto.dims) or proto.external_data):
            raise ValueError(path)
        value = read(proto)
    except (DecodeError, ValueError, TypeError, KeyError):
        raise ModelError(f"{path} is not {noun} of ONNX", rule="files of cases have a value each") from None
    return _with_texts(value)


def _with_texts(value: Any) -> Any:
    """Return a value with strings as texts; in older versions of onnx they are bytes."""
    if isinstance(value, list):
        return [*map(_with_texts, value)]
    if value is None or value.dtype.kind not in "SUO":
        return value
    texts = [
        element.decode("utf-8", "replace") if isinstance(element, bytes) else str(element)
        for element in value.reshape(-1)
    ]
    return np.array(texts, object).reshape(value.shape)
