"""Each ONNX operator run by anydml's own functions: arrays in, arrays out.

What differs from DirectML is ONNX's: a gather index outside raises, slice ends clamp, Split 18 may be uneven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from onnx import AttributeProto, TensorProto

from anydml.errors import BindingError, DescError
from anydml.functions import concat_training, gather, join, slice1, split
from anydml.onnx import custom
from anydml.onnx.budget import SMALL, Budget
from anydml.onnx.graph import Node
from anydml.onnx.parameters import Sizes, gathered_sizes, slice_window, split_parts
from anydml.onnx.tensors import TEXT, VALUE, Array, numpy_type, tensor_shape, to_array
from anydml.text import printable

T = TypeVar("T")

Inputs = Sequence[Array | None]


def run_node(node: Node, inputs: Inputs, budget: Budget) -> tuple[Array, ...]:
    """Run one node.

    Args:
        node: the node.
        inputs: one a name in ``node.inputs``, None where the name is empty.
        budget: is asked before anything is allocated; it does not hold the results.

    Returns:
        One array an output, as many as the operator has for this node; inputs are never changed.

    Raises:
        ModelError: the inputs do not fit the operator, or its result does not fit into memory.
    """
    try:
        return (custom.run if node.domain == custom.DOMAIN else _OPERATORS[node.operator])(node, inputs, budget)
    except (DescError, BindingError, IndexError, UnicodeDecodeError) as error:
        raise node.reworded(error) from None


def required(node: Node, inputs: Sequence[T | None], index: int, name: str) -> T:
    """An input that must be there.

    Raises:
        ModelError: it is not.
    """
    value: T | None = optional(inputs, index)
    if value is None:
        raise node.error(f"input {index} ({name}) is missing", name, f"{name} is required")
    return value


def optional(inputs: Sequence[Any], index: int) -> Any:
    """An input that need not be there."""
    return inputs[index] if index < len(inputs) else None


def _split(node: Node, inputs: Inputs, budget: Budget) -> tuple[Array, ...]:
    x = required(node, inputs, 0, "input")
    axis, sizes = split_parts(node, x.shape, optional(inputs, 1))
    budget.ask(node.label, f"splitting shape {list(x.shape)}", x.nbytes, len(sizes))
    return tuple(split(x, sizes, axis))


def _slice(node: Node, inputs: Inputs, budget: Budget) -> tuple[Array, ...]:
    x = required(node, inputs, 0, "data")
    window = slice_window(node, x.shape, *(optional(inputs, i) for i in range(1, 5)))
    _ask(budget, node, window.taken, x.itemsize)
    return (slice1(x, window.offsets, window.sizes, window.strides),)


def _gather(node: Node, inputs: Inputs, budget: Budget) -> tuple[Array, ...]:
    x, indices = required(node, inputs, 0, "data"), required(node, inputs, 1, "indices")
    if indices.dtype not in (np.int32, np.int64):
        raise node.error(f"indices are {indices.dtype}", "indices", "indices are INT32 or INT64")
    axis = node.axis(x.ndim)
    shape = gathered_sizes(node, x.shape, indices.shape, axis)
    size = math.prod(shape)
    # For little, NumPy reads the indices as its own integers; where it counts references, it looks up positions first.
    more = 8 * indices.size if size * x.itemsize <= SMALL else 0
    if x.dtype.hasobject:
        more += 8 * (x.size + size)
    _ask(budget, node, shape, x.itemsize, more)
    return (gather(x, indices, axis, out_of_range="error"),)


def concat_axis(node: Node, rank: int) -> int:
    """The axis of Concat and ConcatTraining; only version 1 of Concat has a default.

    Raises:
        ModelError: it is missing or outside.
    """
    return node.axis(rank, 1 if node.operator == "Concat" and node.version < 4 else None)


def _concat(node: Node, inputs: Inputs, budget: Budget) -> tuple[Array, ...]:
    parts = [required(node, inputs, i, f"inputs[{i}]") for i in range(max(len(inputs), 1))]
    axis = concat_axis(node, parts[0].ndim)
    budget.ask(node.label, "joining its inputs", sum(part.nbytes for part in parts) + 8 * len(parts), 2)
    return concat_training(parts, axis) if node.operator == "ConcatTraining" else (join(parts, axis),)


def _identity(node: Node, inputs: Inputs, budget: Budget) -> tuple[Array, ...]:
    return (required(node, inputs, 0, "input"),)


def constant_type(node: Node) -> tuple[int, Sizes]:
    """Element type and sizes of a constant, whose elements are not looked at.

    Raises:
        ModelError: it has no value, several, or one of a kind that anydml does not have.
    """
    attribute = _constant_attribute(node)
    if attribute.name == "value":
        return attribute.t.data_type, tensor_shape(attribute.t)
    _, elem_type, field = _CONSTANTS[attribute.name]
    return elem_type, (len(getattr(attribute, field)),) if attribute.name.endswith("s") else ()


def _constant(node: Node, inputs: Inputs, budget: Budget) -> tuple[Array, ...]:
    attribute = _constant_attribute(node)
    if attribute.name == "value":
        return (to_array(attribute.t, budget),)
    numbers = len(attribute.ints) + len(attribute.floats)
    texts = sum(8 + TEXT + 4 * len(text) for text in (attribute.s, *attribute.strings))
    budget.ask(node.label, "reading its value", VALUE * numbers + texts)
    _, elem_type, field = _CONSTANTS[attribute.name]
    value: Any = getattr(attribute, field)
    if elem_type == TensorProto.STRING:
        value = value.decode("utf-8") if field == "s" else [text.decode("utf-8") for text in value]
    return (np.array(value, numpy_type(elem_type)),)


def _constant_attribute(node: Node) -> AttributeProto:
    if len(node.attributes) != 1:
        raise node.error(f"has {len(node.attributes)} attributes", "value", "a constant has one value")
    (attribute,) = node.attributes.values()
    if attribute.name not in _CONSTANTS or _CONSTANTS[attribute.name][0] != attribute.type:
        message = f"attribute {printable(attribute.name)} is none that anydml reads"
        raise node.error(message, attribute.name, "a constant is a dense tensor, or numbers or strings")
    return attribute


def _ask(budget: Budget, node: Node, shape: Sizes, itemsize: int, more: int = 0) -> None:
    size = math.prod(shape) * max(itemsize, 1) + more
    budget.ask(node.label, f"the result of shape {list(shape)}", size)


_CONSTANTS: Mapping[str, tuple[int, int, str]] = {
    "value": (AttributeProto.TENSOR, TensorProto.UNDEFINED, "t"),
    "value_int": (AttributeProto.INT, TensorProto.INT64, "i"),
    "value_ints": (AttributeProto.INTS, TensorProto.INT64, "ints"),
    "value_float": (AttributeProto.FLOAT, TensorProto.FLOAT, "f"),
    "value_floats": (AttributeProto.FLOATS, TensorProto.FLOAT, "floats"),
    "value_string": (AttributeProto.STRING, TensorProto.STRING, "s"),
    "value_strings": (AttributeProto.STRINGS, TensorProto.STRING, "strings"),
}
"""A constant's attributes: their types, the element types they make, and the fields that hold their values."""

_OPERATORS: Mapping[str, Callable[[Node, Inputs, Budget], tuple[Array, ...]]] = {
    "Concat": _concat,
    "ConcatTraining": _concat,
    "Constant": _constant,
    "Gather": _gather,
    "Identity": _identity,
    "Slice": _slice,
    "Split": _split,
    "SplitTraining": _split,
}
