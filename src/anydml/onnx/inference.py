"""Inference of values without running a graph: types and sizes, and the elements of small tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx.defs
import onnx.shape_inference
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from anydml.onnx.budget import Budget
from anydml.onnx.graph import Opsets
from anydml.onnx.graph_values import GraphValue, Reservation, Tensor
from anydml.onnx.tensor_protos import numpy_type, tensor_shape, tensor_type, to_array
from anydml.onnx.walk import plain_domain

FOLLOWED = 4096
"""Largest number of elements of a tensor whose values are propagated."""

SizeOf = Callable[[int, str | None], int | None]
"""Returns the size of an axis that has a name or none, given axis and name; None if it is unknown."""


@dataclass(frozen=True)
class Unknown:
    """A value of unknown sizes.

    Attributes:
        why: what the unknown sizes depend on, for messages.
        sizes: symbolic sizes that must be given to know it.
    """

    why: str
    sizes: tuple[str, ...] = ()


def declared_tensor(value: ValueInfoProto, size_of: SizeOf) -> Tensor | None:
    """Return a tensor of the type and sizes that a model declares; None if not all of them are known.

    Args:
        value: an input, output or value.
        size_of: returns sizes that are not numbers.
    """
    if value.type.WhichOneof("value") != "tensor_type":
        return None
    elem_type, sizes = tensor_type(value)
    dtype = numpy_type(elem_type)
    shape = [size if isinstance(size, int) else size_of(axis, size) for axis, size in enumerate(sizes or ())]
    known_sizes = tuple(size for size in shape if size is not None and size >= 0)
    return None if dtype is None or sizes is None or len(known_sizes) != len(shape) else Tensor(dtype, known_sizes)


def initial(tensor: TensorProto, max_elements: int, budget: Budget) -> Tensor | None:
    """Return the tensor of an initializer; None if onnx does not know its type.

    Args:
        tensor: the initializer.
        max_elements: up to this number, elements are read if they are numbers and in the model; −1 for none.
        budget: holds the elements.
    """
    dtype, shape = numpy_type(tensor.data_type), tensor_shape(tensor)
    if dtype is None:
        return None
    described = Tensor(dtype, shape)
    is_here = tensor.data_location != TensorProto.EXTERNAL
    if is_here and math.prod(shape) <= max_elements and not dtype.hasobject:
        described.array = to_array(tensor, budget)
        described.reservation = Reservation(budget, described.array)
    return described


def infer_outputs(node: NodeProto, opsets: Opsets, inputs: Sequence[GraphValue | None]) -> Iterator[Tensor | None]:
    """Infer types and sizes by onnx; yield a tensor per output, or None if onnx cannot infer it.

    Args:
        node: a valid node of any operator.
        opsets: opset versions of the model.
        inputs: one per name; None for empty names and unknown values.
    """
    try:
        types = _types(node, opsets, inputs)
        inferred_values = {
            name: declared_tensor(helper.make_value_info(name, type_proto), _unknown_size)
            for name, type_proto in types.items()
        }
    except Exception:  # onnx raises errors of many types if it cannot infer something.
        inferred_values = {}
    for name in node.output:
        yield inferred_values.get(name)


def is_inferred_wrongly(node: NodeProto, version: int, shapes: Sequence[Sequence[object] | None]) -> bool:
    """Whether onnx may infer another shape than runtimes make.

    Runtimes broadcast a slope of PRelu both ways, take kernels with gaps for shorter ones where `auto_pad` keeps the
    size of an image, and return half of an STFT unless all of it is asked for; for Attention, onnx takes sizes with
    names for 0.

    Args:
        node: a node of ONNX's domain.
        version: the version of its operator.
        shapes: the shapes of the node's inputs; None for an unknown shape or an omitted input.
    """
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Attention":
        return any(shape is not None and not all(isinstance(size, int) for size in shape) for shape in shapes)
    if "auto_pad" in attributes and attributes["auto_pad"].s.startswith(b"SAME"):
        return any(gap != 1 for gap in attributes["dilations"].ints) if "dilations" in attributes else False
    if node.op_type == "ConvTranspose" and "output_shape" in attributes:
        return shapes[0] is None or len(attributes["output_shape"].ints) != len(shapes[0]) - 2
    if node.op_type != "PRelu" or version < 7:
        return node.op_type == "STFT"
    image, slope = shapes
    if image is None or slope is None or len(slope) > len(image):
        return True
    return not all(size in (1, image_size) for size, image_size in zip(slope[::-1], image[::-1], strict=False))


def _unknown_size(axis: int, name: str | None) -> int | None:
    return None


def _types(node: NodeProto, opsets: Opsets, inputs: Sequence[GraphValue | None]) -> Mapping[str, TypeProto]:
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        return {}
    domain = plain_domain(node.domain)
    schema = onnx.defs.get_schema(node.op_type, opsets[domain], domain)
    types: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for name, value in zip(node.input, inputs, strict=False):
        if isinstance(value, Tensor):
            type_number = helper.np_dtype_to_tensor_dtype(value.dtype)
            types[name] = helper.make_tensor_type_proto(type_number, value.shape)
            if value.array is not None and not value.dtype.hasobject:
                data[name] = numpy_helper.from_array(np.ascontiguousarray(value.array), name)
        elif name:
            return {}
    shapes = [value.shape if isinstance(value, Tensor) else None for value in inputs]
    if not domain and is_inferred_wrongly(node, schema.since_version, shapes):
        return {}
    imports = [helper.make_opsetid(key, version) for key, version in opsets.items()]
    output_types: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
        schema, node, types, input_data=data, opset_imports=imports
    )
    return output_types
