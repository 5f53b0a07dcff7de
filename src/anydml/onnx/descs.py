"""What a graph amounts to in DirectML: SPLIT, JOIN, SLICE1 and GATHER descs.

Sizes and the small integer tensors that decide them (split sizes, starts, ends …) are followed through the graph; no
other tensor is read, and nothing else is evaluated. Shorter tensors get leading 1s up to 4 dimensions, which the older
feature levels need; ONNX Runtime's DirectML provider does the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from onnx import ModelProto, TensorProto

from anydml.errors import DescError, ModelError
from anydml.files.json_path import show
from anydml.onnx import custom
from anydml.onnx.budget import Budget
from anydml.onnx.checks import check, inlined
from anydml.onnx.graph import Node, last_use, read_nodes
from anydml.onnx.operators import concat_axis, constant_type, optional, required, run_node
from anydml.onnx.parameters import Sizes, gathered_sizes, slice_window, split_parts
from anydml.onnx.tensors import (
    Array,
    directml_type,
    sizes_text,
    tensor_shape,
    tensor_type,
    to_array,
    type_name,
)
from anydml.operators import (
    GatherOperatorDesc,
    JoinOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SplitOperatorDesc,
)
from anydml.tensor import TensorDesc

FOLLOWED = 4096
"""Elements of an integer tensor whose values are followed through the graph."""


@dataclass(frozen=True)
class Known:
    """What is known of a value before the graph runs: element type and sizes, and its elements where they matter."""

    elem_type: int
    shape: Sizes
    value: Array | None = None


Inputs = Sequence[Known | None]
Outputs = tuple[Known, ...]
Described = tuple[Outputs, Callable[[int], OperatorDesc] | None]
"""What a node makes, and what makes its desc for a least number of dimensions; None where nothing has to move."""


def to_descs(model: ModelProto, *, min_dimensions: int = 4) -> dict[str, OperatorDesc]:
    """The DirectML descs of a graph, by node name, in order.

    Split and SplitTraining amount to SPLIT, Concat and ConcatTraining to JOIN, Slice to SLICE1, Gather to GATHER (which
    clamps an index that ONNX refuses). Constant and Identity amount to nothing.

    Args:
        model: a model of these nodes, functions included, whose inputs have known sizes.
        min_dimensions: tensors of fewer get leading 1s.

    Returns:
        The descs, not yet checked against any feature level.

    Raises:
        ModelError: the model is not valid, or has another operator; a size, or a value that decides one, is not known;
            DirectML has no tensors of a type.
    """
    descs: dict[str, OperatorDesc] = {}
    for name, desc in describe(model, min_dimensions):
        if isinstance(desc, ModelError):
            raise desc
        descs[name] = desc
    return descs


def describe(model: ModelProto, min_dimensions: int = 4) -> Iterator[tuple[str, OperatorDesc | ModelError]]:
    """As `to_descs`; a type that DirectML does not have is yielded, not raised, so that all of them can be listed.

    Raises:
        ModelError: as `to_descs`, for everything else.
    """
    check(model)
    model = inlined(model)
    nodes = read_nodes(model)
    needed, drops, budget = _needed(nodes), last_use(nodes, ()), Budget()
    values = {tensor.name: _known_tensor(tensor, needed, budget) for tensor in model.graph.initializer}
    for value in model.graph.input:
        elem_type, sizes = tensor_type(value)
        shape = tuple(size for size in sizes or () if isinstance(size, int))
        if sizes is None or len(shape) != len(sizes):
            has = "no shape" if sizes is None else f"sizes {sizes_text(sizes)}"
            message = f"input {show(value.name)} has {has}; give it fixed sizes"
            raise ModelError(message, field=value.name, rule="descs have known sizes")
        values[value.name] = Known(elem_type, shape)
    for i, node in enumerate(nodes):
        inputs = [_value(values, node, name) for name in node.inputs]
        found, desc = _describe(node, inputs, min_dimensions, needed, budget)
        values.update((name, known) for name, known in zip(node.outputs, found, strict=False) if name)
        if desc is not None:
            yield node.name, desc
        dropped = (values.pop(name, None) for name in drops.get(i, ()))
        budget.release(known.value for known in dropped if known is not None and known.value is not None)


def _needed(nodes: Sequence[Node]) -> set[str]:
    """The values that decide sizes, and those that they are made from: no other is ever evaluated."""
    needed: set[str] = set()
    for node in reversed(nodes):
        # The second output of ConcatTraining follows from sizes alone.
        made = node.outputs[:1] if node.operator == "ConcatTraining" else node.outputs
        decisive = node.inputs if not needed.isdisjoint(made) else node.inputs[1:]
        if decisive is node.inputs or node.operator in ("Split", "SplitTraining", "Slice"):
            needed.update(decisive)
            needed.discard("")
    return needed


def _value(values: Mapping[str, Known], node: Node, name: str) -> Known | None:
    if not name:
        return None
    if name not in values:
        raise node.error(f"nothing makes its input {show(name)} before it runs", name, "nodes come in order")
    return values[name]


def _known_tensor(tensor: TensorProto, needed: Set[str], budget: Budget) -> Known:
    known = Known(tensor.data_type, tensor_shape(tensor))
    if tensor.name not in needed or tensor.data_location == TensorProto.EXTERNAL or not _is_followed(known):
        return known
    return _held(known, to_array(tensor, budget), budget)


def _held(known: Known, value: Array, budget: Budget) -> Known:
    budget.hold(value)
    return replace(known, value=value)


def _is_followed(known: Known) -> bool:
    return known.elem_type in (TensorProto.INT32, TensorProto.INT64) and math.prod(known.shape) <= FOLLOWED


def _describe(
    node: Node, inputs: Inputs, min_dimensions: int, needed: Set[str], budget: Budget
) -> tuple[Outputs, OperatorDesc | ModelError | None]:
    if node.domain == custom.DOMAIN:
        raise node.error(custom.NO_DESC)
    try:
        outputs, make = _RULES[node.operator](node, inputs)
    except DescError as error:
        raise node.reworded(error) from None
    if not needed.isdisjoint(node.outputs) and _can_be_followed(node, inputs, outputs):
        found = run_node(node, [None if known is None else known.value for known in inputs], budget)
        outputs = tuple(_held(known, value, budget) for known, value in zip(outputs, found, strict=True))
    if make is None:
        return outputs, None
    moved = outputs[0].elem_type
    if directml_type(moved) is None:
        message = f"moves {type_name(moved)}, and DirectML has no tensors of it"
        return outputs, node.error(message, "DataType", "DirectML moves integers and floats of 8 to 64 bits")
    return outputs, make(min_dimensions)


def _can_be_followed(node: Node, inputs: Inputs, outputs: Outputs) -> bool:
    if node.operator == "Constant" and any(
        attribute.t.data_location == TensorProto.EXTERNAL for attribute in node.attributes.values()
    ):
        return False
    return all(map(_is_followed, outputs)) and all(known is None or known.value is not None for known in inputs)


def _constant(node: Node, inputs: Inputs) -> Described:
    return (Known(*constant_type(node)),), None


def _split(node: Node, inputs: Inputs) -> Described:
    x = required(node, inputs, 0, "input")
    axis, sizes = split_parts(node, x.shape, _values(node, inputs, 1, "split"))
    parts = tuple(Known(x.elem_type, (*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes)

    def make(dimensions: int) -> OperatorDesc:
        whole, *tensors = _tensors(dimensions, x, *parts)
        return SplitOperatorDesc(whole, tensors, axis + len(whole.sizes) - len(x.shape))

    return parts, make


def _concat(node: Node, inputs: Inputs) -> Described:
    parts = [required(node, inputs, i, f"inputs[{i}]") for i in range(max(len(inputs), 1))]
    first = parts[0]
    axis = concat_axis(node, len(first.shape))
    before, after = first.shape[:axis], first.shape[axis + 1 :]
    for i, part in enumerate(parts):
        if part.elem_type != first.elem_type:
            message = f"inputs[{i}] is {type_name(part.elem_type)}, but inputs[0] is {type_name(first.elem_type)}"
            raise node.error(message, f"inputs[{i}]", "all inputs have one type")
        if len(part.shape) != len(first.shape) or (part.shape[:axis], part.shape[axis + 1 :]) != (before, after):
            message = f"inputs[{i}] has sizes {list(part.shape)}, but inputs[0] has {list(first.shape)}, axis {axis}"
            raise node.error(message, f"inputs[{i}]", "sizes are equal but along axis")
    lengths = np.array([part.shape[axis] for part in parts], np.int64)
    joined = Known(first.elem_type, (*before, int(lengths.sum()), *after))

    def make(dimensions: int) -> OperatorDesc:
        whole, *tensors = _tensors(dimensions, joined, *parts)
        return JoinOperatorDesc(tensors, whole, axis + len(whole.sizes) - len(first.shape))

    return (joined, Known(TensorProto.INT64, lengths.shape, lengths)), make


def _slice(node: Node, inputs: Inputs) -> Described:
    x = required(node, inputs, 0, "data")
    vectors = (_values(node, inputs, i, name) for i, name in enumerate(("starts", "ends", "axes", "steps"), 1))
    window = slice_window(node, x.shape, *vectors)
    result = Known(x.elem_type, window.taken)

    def make(dimensions: int) -> OperatorDesc:
        source, output = _tensors(dimensions, x, result)
        more = len(source.sizes) - len(x.shape)
        offsets, sizes, strides = (0,) * more, (1,) * more, (1,) * more
        return Slice1OperatorDesc(
            source, output, offsets + window.offsets, sizes + window.sizes, strides + window.strides
        )

    return (result,), make


def _gather(node: Node, inputs: Inputs) -> Described:
    x, indices = required(node, inputs, 0, "data"), required(node, inputs, 1, "indices")
    if indices.elem_type not in (TensorProto.INT32, TensorProto.INT64):
        raise node.error(f"indices are {type_name(indices.elem_type)}", "indices", "indices are INT32 or INT64")
    axis = node.axis(len(x.shape))
    result = Known(x.elem_type, gathered_sizes(node, x.shape, indices.shape, axis))

    def make(dimensions: int) -> OperatorDesc:
        # The three have one DimensionCount; leading 1s of the input are cropped where the index has more dimensions.
        source, index, output = _tensors(dimensions, x, indices, result)
        return GatherOperatorDesc(source, index, output, axis + len(source.sizes) - len(x.shape), len(indices.shape))

    return (result,), make


def _identity(node: Node, inputs: Inputs) -> Described:
    return (required(node, inputs, 0, "input"),), None


def _values(node: Node, inputs: Inputs, index: int, name: str) -> Array | None:
    """The elements of an input that decides sizes, or None where it is not given."""
    known: Known | None = optional(inputs, index)
    if known is not None and known.value is None:
        message = (
            f"{name} is known only when the graph runs; descs need it as a constant of at most {FOLLOWED} integers"
        )
        raise node.error(message, name, "descs have known sizes")
    return None if known is None else known.value


def _tensors(dimensions: int, *every: Known) -> list[TensorDesc]:
    """Tensors of one dimension count: the largest rank, and at least `dimensions`."""
    count = max(1, dimensions, *(len(known.shape) for known in every))
    return [
        TensorDesc(data_type, (1,) * (count - len(known.shape)) + known.shape)
        for known in every
        if (data_type := directml_type(known.elem_type)) is not None
    ]


_RULES: Mapping[str, Callable[[Node, Inputs], Described]] = {
    "Concat": _concat,
    "ConcatTraining": _concat,
    "Constant": _constant,
    "Gather": _gather,
    "Identity": _identity,
    "Slice": _slice,
    "Split": _split,
    "SplitTraining": _split,
}
