"""Each ONNX operator run by anydml's own functions: arrays in, arrays out.

What differs from DirectML is ONNX's: a gather index outside raises, slice ends clamp, Split 18 may be uneven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from onnx import AttributeProto

from anydml.errors import BindingError, DescError
from anydml.functions import concat_training, gather, join, slice1, split
from anydml.onnx.graph import Node
from anydml.onnx.parameters import slice_window, split_parts
from anydml.onnx.tensors import Array, check_allocation, to_array

T = TypeVar("T")

Inputs = Sequence[Array | None]


def run_node(node: Node, inputs: Inputs) -> tuple[Array, ...]:
    """Run one node.

    Args:
        node: the node.
        inputs: one a name in ``node.inputs``, None where the name is empty.

    Returns:
        One array an output, as many as the operator has for this node; inputs are never changed.

    Raises:
        ModelError: the inputs do not fit the operator, or its result does not fit into memory.
    """
    try:
        return _OPERATORS[node.operator](node, inputs)
    except (DescError, BindingError, IndexError, UnicodeDecodeError) as error:
        field, rule = getattr(error, "field", None), getattr(error, "rule", None)
        raise node.error(str(error), field, rule) from None


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


def _split(node: Node, inputs: Inputs) -> tuple[Array, ...]:
    x = required(node, inputs, 0, "input")
    axis, sizes = split_parts(node, x.shape, optional(inputs, 1))
    check_allocation(node.label, x.shape, x.itemsize)
    return tuple(split(x, sizes, axis))


def _slice(node: Node, inputs: Inputs) -> tuple[Array, ...]:
    x = required(node, inputs, 0, "data")
    window = slice_window(node, x.shape, *(optional(inputs, i) for i in range(1, 5)))
    check_allocation(node.label, window.taken, x.itemsize)
    return (slice1(x, window.offsets, window.sizes, window.strides),)


def _gather(node: Node, inputs: Inputs) -> tuple[Array, ...]:
    x, indices = required(node, inputs, 0, "data"), required(node, inputs, 1, "indices")
    if indices.dtype not in (np.int32, np.int64):
        raise node.error(f"indices are {indices.dtype}", "indices", "indices are INT32 or INT64")
    axis = node.axis(x.ndim)
    check_allocation(node.label, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.itemsize)
    return (gather(x, indices, axis, out_of_range="error"),)


def concat_axis(node: Node, rank: int) -> int:
    """The axis of Concat and ConcatTraining; only version 1 of Concat has a default.

    Raises:
        ModelError: it is missing or outside.
    """
    return node.axis(rank, 1 if node.operator == "Concat" and node.version < 4 else None)


def _concat(node: Node, inputs: Inputs) -> tuple[Array, ...]:
    parts = [required(node, inputs, i, f"inputs[{i}]") for i in range(max(len(inputs), 1))]
    axis = concat_axis(node, parts[0].ndim)
    check_allocation(node.label, (sum(part.size for part in parts),), parts[0].itemsize)
    return concat_training(parts, axis) if node.operator == "ConcatTraining" else (join(parts, axis),)


def _identity(node: Node, inputs: Inputs) -> tuple[Array, ...]:
    return (required(node, inputs, 0, "input"),)


def _constant(node: Node, inputs: Inputs) -> tuple[Array, ...]:
    if len(node.attributes) != 1:
        raise node.error(f"has {len(node.attributes)} attributes", "value", "a constant has one value")
    (attribute,) = node.attributes.values()
    if attribute.name == "value" and attribute.type == AttributeProto.TENSOR:
        return (to_array(attribute.t),)
    value: Any = {
        "value_int": (AttributeProto.INT, attribute.i, np.int64),
        "value_ints": (AttributeProto.INTS, [*attribute.ints], np.int64),
        "value_float": (AttributeProto.FLOAT, attribute.f, np.float32),
        "value_floats": (AttributeProto.FLOATS, [*attribute.floats], np.float32),
        "value_string": (AttributeProto.STRING, _text(attribute.s), np.object_),
        "value_strings": (AttributeProto.STRINGS, [*map(_text, attribute.strings)], np.object_),
    }.get(attribute.name)
    if value is None or value[0] != attribute.type:
        message = f"attribute {attribute.name} is none that anydml reads"
        raise node.error(message, attribute.name, "a constant is a dense tensor, or numbers or strings")
    return (np.array(value[1], value[2]),)


def _text(value: bytes) -> str:
    return value.decode("utf-8")


_OPERATORS: Mapping[str, Callable[[Node, Inputs], tuple[Array, ...]]] = {
    "Concat": _concat,
    "ConcatTraining": _concat,
    "Constant": _constant,
    "Gather": _gather,
    "Identity": _identity,
    "Slice": _slice,
    "Split": _split,
    "SplitTraining": _split,
}
