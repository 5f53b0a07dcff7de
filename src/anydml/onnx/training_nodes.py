"""Standard ONNX nodes (opset 13 and later) that are equivalent to SplitTraining and ConcatTraining.

``SplitTraining(x, split)`` with n parts becomes ``Split(x, sizes)``. If `split` may be empty, the sizes are
``Concat(split, Expand(Shape(x)[axis] / n, [n · (Shape(split) == 0)]))``: `split` itself, or n equal parts. If n does
not divide the axis, these do not add up, and Split fails.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cached_property
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.onnx.walk import Body, names

Lengths = MutableMapping[str, int]
"""Known lengths of one-dimensional values, by name."""

LONGEST_BASE = 100
"""Length to which base names are truncated, since a node of n inputs needs 2n new names."""


class FreshNames:
    """Generates names that are not used in a model."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._counts: dict[str, int] = {}

    @cached_property
    def _taken(self) -> set[str]:
        """Names that are used."""
        return set(names(self._model))

    def new(self, base: str, purpose: str) -> str:
        """Return an unused name such as ``parts/split_sizes``."""
        stem = name = f"{base[:LONGEST_BASE]}/{purpose}"
        # Continue from the last number, since a thousand functions may share a name.
        count = self._counts.get(stem, 1)
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._counts[stem] = count
        self._taken.add(name)
        return name


class _Nodes:
    """Collects new nodes in order, each with one output that has a descriptive name."""

    def __init__(self, base: str, fresh: FreshNames) -> None:
        self.base = base
        self.fresh = fresh
        self.protos: list[NodeProto] = []

    def add(self, purpose: str, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        output = self.fresh.new(self.base, purpose)
        self.protos.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def integers(self, purpose: str, *values: int) -> str:
        """Add a constant of one dimension."""
        return self.add(purpose, "Constant", value_ints=values)

    def axis(self, attribute: AttributeProto | None) -> str:
        """Add the axis as a tensor of one element."""
        if attribute is None or not attribute.ref_attr_name:
            return self.integers("axis", attribute.i if attribute else 0)
        # In a function, the axis is an attribute of the call, which only an attribute of a node can refer to.
        scalar = self.add("axis_attribute", "Constant")
        self.protos[-1].attribute.append(
            AttributeProto(name="value_int", ref_attr_name=attribute.ref_attr_name, type=AttributeProto.INT)
        )
        return self.add("axis", "Unsqueeze", scalar, self.integers("first", 0))

    def length(self, purpose: str, value: str, axis: str) -> str:
        """Add a value's size along an axis, as a tensor of one element."""
        return self.add(purpose, "Gather", self.add(f"{purpose}_shape", "Shape", value), axis)


def split_nodes(node: NodeProto, lengths: Lengths, fresh: FreshNames) -> list[NodeProto]:
    """Return the nodes that replace a SplitTraining.

    Args:
        node: the node; unnamed outputs get a name.
        lengths: known lengths of values, used for its input `split`.
        fresh: generates names of new values.

    Raises:
        ModelError: the node has no input or no output, or its axis is not an INT.
    """
    if not node.input or not node.input[0] or not node.output:
        raise _error(node, "has no input or no output")
    axis = _axis(node)
    base = next((name for name in node.output if name), node.name or node.op_type)
    nodes = _Nodes(base, fresh)
    outputs = [name or fresh.new(base, "part") for name in node.output]
    split = node.input[1] if len(node.input) > 1 else ""
    length = lengths.get(split) if split else 0
    sizes = split if length else _sizes(nodes, node.input[0], split, axis, len(outputs), length)
    return [*nodes.protos, _successor(node, "Split", [node.input[0], sizes], outputs, axis)]


def _sizes(nodes: _Nodes, x: str, split: str, axis: AttributeProto | None, parts: int, length: int | None) -> str:
    """Add equal sizes if `split` is known to be empty, otherwise an expression that chooses at run time."""
    count = nodes.integers("part_count", parts)
    part = nodes.add("part_size", "Div", nodes.length("whole", x, nodes.axis(axis)), count)
    if length is not None:
        return nodes.add("split_sizes", "Expand", part, count)
    none = nodes.add("split_is_empty", "Equal", nodes.add("split_length", "Shape", split), nodes.integers("zero", 0))
    equal = nodes.add("equal_count", "Mul", nodes.add("if_empty", "Cast", none, to=TensorProto.INT64), count)
    return nodes.add("split_sizes", "Concat", split, nodes.add("equal_sizes", "Expand", part, equal), axis=0)


def concat_nodes(node: NodeProto, fresh: FreshNames) -> list[NodeProto]:
    """Return the nodes that replace a ConcatTraining.

    Raises:
        ModelError: the node has no input, no output, or no axis.
    """
    axis = _axis(node)
    if not node.input or not any(node.output):
        raise _error(node, "has no input or no output")
    if axis is None:
        raise _error(node, "has no attribute axis, which is required")
    base = node.output[0] or node.output[1]
    nodes = _Nodes(base, fresh)
    new_nodes = [_successor(node, "Concat", node.input, [node.output[0] or fresh.new(base, "joined")], axis)]
    if len(node.output) > 1 and node.output[1]:
        axis_name = nodes.axis(axis)
        parts = [nodes.length(f"length_{i}", name, axis_name) for i, name in enumerate(node.input)]
        name = fresh.new(base, "per_input_length")
        new_nodes += [*nodes.protos, helper.make_node("Concat", parts, [node.output[1]], name=name, axis=0)]
    return new_nodes


def lengths_in(body: Body) -> dict[str, int]:
    """Return the lengths that a graph or function declares."""
    values: list[ValueInfoProto] = [*body.value_info]
    lengths: dict[str, int] = {}
    if isinstance(body, GraphProto):
        values += [*body.input, *body.output]
        lengths = {tensor.name: tensor.dims[0] for tensor in body.initializer if len(tensor.dims) == 1}
        # For an input, an initializer is only a default.
        for value in body.input:
            lengths.pop(value.name, None)
    for value in values:
        sizes = value.type.tensor_type.shape.dim
        if len(sizes) == 1 and sizes[0].HasField("dim_value"):
            lengths[value.name] = sizes[0].dim_value
    return lengths


def note_lengths(node: NodeProto, is_training: bool, lengths: Lengths) -> None:
    """Record the lengths of a node's outputs, if the node alone determines them."""
    if is_training and node.op_type == "ConcatTraining" and len(node.output) > 1:
        lengths[node.output[1]] = len(node.input)
    if node.op_type == "Constant" and not node.domain and node.output and len(node.attribute) == 1:
        (value,) = node.attribute
        if value.name == "value_ints" and not value.ref_attr_name:
            lengths[node.output[0]] = len(value.ints)
        if value.name == "value" and len(value.t.dims) == 1:
            lengths[node.output[0]] = value.t.dims[0]


def _successor(
    node: NodeProto, kind: str, inputs: Sequence[str], outputs: Sequence[str], axis: AttributeProto | None
) -> NodeProto:
    """Create a standard node with the name, documentation and metadata of the old one."""
    new = NodeProto()
    new.CopyFrom(node)
    new.op_type = kind
    for field in ("domain", "overload", "input", "output", "attribute"):
        new.ClearField(field)
    new.input.extend(inputs)
    new.output.extend(outputs)
    if axis is not None:
        new.attribute.append(axis)
    return new


def _axis(node: NodeProto) -> AttributeProto | None:
    axis = next((attribute for attribute in node.attribute if attribute.name == "axis"), None)
    if axis is not None and axis.type != AttributeProto.INT:
        raise _error(node, "has an attribute axis that is not an INT")
    return axis


def _error(node: NodeProto, message: str) -> ModelError:
    return ModelError(f"node {show(node.name)} ({node.op_type}): {message}", node.op_type)
