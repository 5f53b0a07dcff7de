"""Generators: Constant, ConstantOfShape, Range, Shape, Size, NonZero."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from anydml.onnx.budget import Budget
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Array, Tensor, integers
from anydml.onnx.lowering import LoweringContext, UnknownElementsError, check_bytes
from anydml.onnx.nodes.node_arguments import elements_of, scalar, sizes_of
from anydml.onnx.tensor_protos import TEXT, VALUE, numpy_type, tensor_shape, to_array, type_name
from anydml.text import escape_controls

ELEMENTS = {"int": TensorProto.INT64, "float": TensorProto.FLOAT, "string": TensorProto.STRING}
"""Element types of the attributes ``value_int``, ``value_ints`` … of Constant."""


def constant(node: Node, ctx: LoweringContext) -> Tensor:
    """Constant: the value of its attribute, which is read only if the graph runs."""
    if len(node.attributes) != 1:
        raise node.error(
            f"has {len(node.attributes)} attributes", "value", "a constant must have one attribute, its value"
        )
    ((name, attribute),) = node.attributes.items()
    value_type = name.removeprefix("value_")
    elem_type: int = attribute.t.data_type if name == "value" else ELEMENTS.get(value_type.removesuffix("s"), 0)
    if not elem_type:
        message = f"attribute {escape_controls(name)} is none that anydml reads"
        raise node.error(message, name, "a constant must be a dense tensor, or numbers or strings")
    dtype = numpy_type(elem_type)
    if dtype is None:
        message = f"its value has {type_name(elem_type)}"
        raise node.error(message, "value", "the element type must be one that onnx knows")
    if name == "value":
        shape = tensor_shape(attribute.t)
    else:
        shape = (len(getattr(attribute, value_type)),) if value_type.endswith("s") else ()

    def make(budget: Budget) -> Array:
        return to_array(attribute.t, budget) if name == "value" else np.array(node.get(name), dtype)

    numbers = VALUE * (len(attribute.ints) + len(attribute.floats))
    texts = sum(8 + TEXT + 4 * len(text) for text in (attribute.s, *attribute.strings))
    return ctx.constant_result(node, Tensor(dtype, shape, maker=node.label), make, numbers + texts)


def constant_of_shape(node: Node, ctx: LoweringContext, sizes: Tensor) -> Tensor:
    """ConstantOfShape: fill with one element, by default a FLOAT 0."""
    element = filling(node)
    shape = sizes_of(node, elements_of(node, ctx, sizes, "input"), "input")
    ctx.arrays()
    return ctx.result(node, ctx.filled(shape, element))


def filling(node: Node) -> Array:
    """Return the attribute `value` of ConstantOfShape as a 0-d array.

    Raises:
        ModelError: the attribute does not have exactly one element.
    """
    tensor = node.get("value")
    if tensor is None:
        return np.zeros((), np.float32)
    if math.prod(tensor_shape(tensor)) != 1:
        raise node.error("value is not a tensor of one element", "value", "value must have one element")
    return to_array(tensor, Budget()).reshape(())


def range_(node: Node, ctx: LoweringContext, *tensors: Tensor) -> Tensor:
    """Range: ``start + k·delta`` up to `limit`, exclusive."""
    names, dtype = ("start", "limit", "delta"), tensors[0].dtype
    start, limit, delta = (scalar(node, ctx, tensor, name) for tensor, name in zip(tensors, names, strict=True))
    if dtype.kind not in "iufV":
        raise node.error(f"start, limit and delta are {dtype}", "delta", "start, limit and delta must be numbers")
    if delta == 0 or not (isinstance(delta, int) or all(map(math.isfinite, (start, limit, delta)))):
        raise node.error(f"start, limit and delta are {start}, {limit} and {delta}", "delta", "delta must not be 0")
    if isinstance(delta, int):
        count = max(0, -((limit - start) // -delta))
    else:
        steps = (limit - start) / delta
        if not math.isfinite(steps):
            raise node.error(
                f"there are {steps} steps from {start} to {limit}", "delta", "the number of steps must be finite"
            )
        count = max(0, math.ceil(steps))
    check_bytes(node, (count,), dtype.itemsize)

    def make() -> Array:
        with np.errstate(all="ignore"):
            if isinstance(delta, int):
                # Arithmetic modulo 2⁶⁴ is exact for results in the range of INT64.
                steps = np.arange(count, dtype=np.uint64) * np.uint64(delta % 2**64) + np.uint64(start % 2**64)
                return steps.view(np.int64).astype(dtype)
            return np.asarray(start + np.arange(count) * delta).astype(dtype)

    return ctx.counted_result(node, start, count, delta, dtype, make)


def shape(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """Shape: the sizes of a tensor, from `start` to `end`."""
    return ctx.known_result(node, integers(x.shape[node.get("start") : node.get("end")]))


def size(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """Size: the number of elements of a tensor."""
    count = x.size
    if count >= 2**63:
        raise node.error(f"data has {count} elements", "data", "the number of elements must fit INT64")
    return ctx.known_result(node, integers((count,)).reshape(()))


def non_zero(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """NonZero: the coordinates of all non-zero elements, one column per element."""
    array = ctx.elements(x)
    if array is None:
        raise UnknownElementsError("how many elements are not zero")
    count, rank = int(np.count_nonzero(array)), array.ndim

    def make() -> Array:
        coordinates = np.empty((rank, count), np.int64)
        for k, places in enumerate(np.nonzero(array) if rank else ()):
            coordinates[k] = places
        return coordinates

    return ctx.computed_result(node, (rank, count), np.dtype(np.int64), make, 16 * rank * count + array.size)
