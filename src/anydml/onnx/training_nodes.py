"""The standard ONNX nodes (opset 13 and later) that do what SplitTraining and ConcatTraining do.

``SplitTraining(x, split)`` of n parts is ``Split(x, sizes)``. Where `split` may be empty, the sizes are
``Concat(split, Expand(Shape(x)[axis] / n, [n · (Shape(split) == 0)]))``: `split` itself, or else n equal parts, whose
sum falls short of the axis, which Split refuses, where the axis does not divide.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.onnx.walk import Body, names

Lengths = MutableMapping[str, int]
"""Known lengths of one-dimensional values, by name."""

LONGEST_BASE = 100
"""Characters of a name that are repeated in new ones: a node of n inputs makes 2n of them."""


class FreshNames:
    """Names that nothing in a model has."""

    def __init__(self, model: ModelProto) -> None:
        self._taken = set(names(model))
        self._counts: dict[str, int] = {}

    def new(self, base: str, what: str) -> str:
        """A name such as ``parts/split_sizes``."""
        wanted = name = f"{base[:LONGEST_BASE]}/{what}"
        # All below were tried before: a thousand functions may have values of one name.
        count = self._counts.get(wanted, 1)
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._counts[wanted] = count
        self._taken.add(name)
        return name


class _Nodes:
    """New nodes in order, each with one new value that is named after what it is."""

    def __init__(self, base: str, fresh: FreshNames) -> None:
        self.base = base
        self.fresh = fresh
        self.made: list[NodeProto] = []

    def add(self, what: str, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        output = self.fresh.new(self.base, what)
        self.made.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def integers(self, what: str, *values: int) -> str:
        """Add a constant of one dimension."""
        return self.add(what, "Constant", value_ints=values)

    def axis(self, attribute: AttributeProto | None) -> str:
        """Add the axis as a tensor of one element."""
        if attribute is None or not attribute.ref_attr_name:
            return self.integers("axis", attribute.i if attribute else 0)
        # In a function the axis is known where it is called; only an attribute of another node can refer to it.
        scalar = self.add("axis_attribute", "Constant")
        self.made[-1].attribute.append(
            AttributeProto(name="value_int", ref_attr_name=attribute.ref_attr_name, type=AttributeProto.INT)
        )
        return self.add("axis", "Unsqueeze", scalar, self.integers("first", 0))

    def length(self, what: str, value: str, axis: str) -> str:
        """Add a value's size along an axis, as a tensor of one element."""
        return self.add(what, "Gather", self.add(f"{what}_shape", "Shape", value), axis)


def split_nodes(node: NodeProto, lengths: Lengths, fresh: FreshNames) -> list[NodeProto]:
    """The nodes that stand for a SplitTraining.

    Args:
        node: the node. An output without a name gets one.
        lengths: what is known of the length of its input `split`.
        fresh: makes the names of new values.

    Raises:
        ModelError: the node has no input, no output, or an axis that is no INT.
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
    return [*nodes.made, _successor(node, "Split", [node.input[0], sizes], outputs, axis)]


def _sizes(nodes: _Nodes, x: str, split: str, axis: AttributeProto | None, parts: int, length: int | None) -> str:
    """Equal sizes where `split` is known to be empty, else an expression that decides it at run time."""
    count = nodes.integers("part_count", parts)
    part = nodes.add("part_size", "Div", nodes.length("whole", x, nodes.axis(axis)), count)
    if length is not None:
        return nodes.add("split_sizes", "Expand", part, count)
    none = nodes.add("split_is_empty", "Equal", nodes.add("split_length", "Shape", split), nodes.integers("zero", 0))
    equal = nodes.add("equal_count", "Mul", nodes.add("if_empty", "Cast", none, to=TensorProto.INT64), count)
    return nodes.add("split_sizes", "Concat", split, nodes.add("equal_sizes", "Expand", part, equal), axis=0)


def concat_nodes(node: NodeProto, fresh: FreshNames) -> list[NodeProto]:
    """The nodes that stand for a ConcatTraining.

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
    made = [_successor(node, "Concat", node.input, [node.output[0] or fresh.new(base, "joined")], axis)]
    if len(node.output) > 1 and node.output[1]:
        at = nodes.axis(axis)
        parts = [nodes.length(f"length_{i}", name, at) for i, name in enumerate(node.input)]
        name = fresh.new(base, "per_input_length")
        made += [*nodes.made, helper.make_node("Concat", parts, [node.output[1]], name=name, axis=0)]
    return made


def lengths_in(body: Body) -> dict[str, int]:
    """Lengths that a graph's or function's own declarations tell."""
    values: list[ValueInfoProto] = [*body.value_info]
    lengths: dict[str, int] = {}
    if isinstance(body, GraphProto):
        values += [*body.input, *body.output]
        lengths = {tensor.name: tensor.dims[0] for tensor in body.initializer if len(tensor.dims) == 1}
        # An initializer that is an input too is only its default.
        for value in body.input:
            lengths.pop(value.name, None)
    for value in values:
        sizes = value.type.tensor_type.shape.dim
        if len(sizes) == 1 and sizes[0].HasField("dim_value"):
            lengths[value.name] = sizes[0].dim_value
    return lengths


def note_lengths(node: NodeProto, is_training: bool, lengths: Lengths) -> None:
    """Remember the lengths of what a node makes, where the node alone tells them."""
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
    """A standard node with what the old one has: name, axis, documentation, metadata."""
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
        raise _error(node, "has an attribute axis that is no INT")
    return axis


def _error(node: NodeProto, message: str) -> ModelError:
    return ModelError(f"node {show(node.name)} ({node.op_type}): {message}", node.op_type)
