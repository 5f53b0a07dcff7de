"""What is known of values without running a graph: types and sizes, and the elements of small tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx.defs
import onnx.shape_inference
from onnx import NodeProto, TensorProto, TypeProto, helper, numpy_helper

from anydml.errors import ModelError
from anydml.onnx.graph import Opsets
from anydml.onnx.tensors import numpy_type, tensor_type
from anydml.onnx.values import GraphValue, Tensor
from anydml.onnx.walk import plain_domain

FOLLOWED = 4096
"""Largest number of elements of a tensor whose values are propagated."""


@dataclass(frozen=True)
class Unknown:
    """A value of unknown sizes.

    Attributes:
        why: what its sizes depend on, for messages.
        sizes: symbolic sizes that must be given to know it.
    """

    why: str
    sizes: tuple[str, ...] = ()


def inferred(node: NodeProto, opsets: Opsets, inputs: Sequence[GraphValue | None]) -> Iterator[Tensor | None]:
    """Infer types and sizes by onnx; yield a tensor per output, or None if onnx cannot infer it.

    Args:
        node: a valid node of any operator.
        opsets: opset versions of the model.
        inputs: one per name; None for empty names and unknown values.
    """
    try:
        types = _types(node, opsets, inputs)
    except Exception:  # onnx raises errors of many types if it cannot infer something.
        types = {}
    for name in node.output:
        yield _tensor(types[name]) if name in types else None


def _types(node: NodeProto, opsets: Opsets, inputs: Sequence[GraphValue | None]) -> Mapping[str, TypeProto]:
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        return {}
    domain = plain_domain(node.domain)
    schema = onnx.defs.get_schema(node.op_type, opsets[domain], domain)
    types: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for name, value in zip(node.input, inputs, strict=False):
        if isinstance(value, Tensor):
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            types[name] = helper.make_tensor_type_proto(kind, value.shape)
            if value.array is not None and not value.dtype.hasobject:
                data[name] = numpy_helper.from_array(np.ascontiguousarray(value.array), name)
        elif name:
            return {}
    imports = [helper.make_opsetid(key, version) for key, version in opsets.items()]
    found: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
        schema, node, types, input_data=data, opset_imports=imports
    )
    return found


def _tensor(kind: TypeProto) -> Tensor | None:
    value = helper.make_value_info("it", kind)
    try:
        elem_type, sizes = tensor_type(value)
    except ModelError:
        return None
    dtype = numpy_type(elem_type)
    shape = tuple(size for size in sizes or () if isinstance(size, int) and size >= 0)
    if dtype is None or sizes is None or len(shape) != len(sizes):
        return None
    return Tensor(dtype, shape)
