"""A model's main graph during rewriting. Nodes and constants are immutable; rewrites replace them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.location import show
from anydml.onnx.checks import MAX_BYTES
from anydml.onnx.graph import opsets_of
from anydml.onnx.graph_values import Array
from anydml.onnx.training_nodes import FreshNames
from anydml.onnx.walk import bodies, plain_domain, subgraphs
from anydml.proving.constants import NUMBER_ATTRIBUTES, Constants
from anydml.text import bytes_text

OUTSIDE_GRAPH = -1
"""In place of a node's number: a reader outside the main graph, which is a subgraph or the caller of the model."""


class Op:
    """A node of the main graph.

    Attributes:
        proto: the node in ONNX's format.
        op_type: the operator's type, prefixed with the domain unless that is ONNX's own.
        inputs: names of values, empty for omitted ones.
        outputs: names of values, empty for omitted ones.
        captured: names that its subgraphs read, including their own values.
    """

    __slots__ = ("captured", "inputs", "op_type", "outputs", "proto")

    def __init__(self, proto: NodeProto) -> None:
        domain = plain_domain(proto.domain)
        self.proto = proto
        self.op_type = f"{domain}:{proto.op_type}" if domain else proto.op_type
        self.inputs, self.outputs = tuple(proto.input), tuple(proto.output)
        self.captured = tuple(_capture(proto))

    @classmethod
    def make(cls, op_type: str, inputs: Iterable[str], outputs: Iterable[str], name: str, **attributes: Any) -> Op:
        """Create a node of an operator of ONNX's own domain."""
        return cls(helper.make_node(op_type, [*inputs], [*outputs], name, **attributes))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or `default`; strings are bytes."""
        attribute = next((candidate for candidate in self.proto.attribute if candidate.name == name), None)
        return default if attribute is None else helper.get_attribute_value(attribute)

    def copy_with(
        self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None, name: str = "", **changes: Any
    ) -> Op:
        """Return the node with other inputs, outputs, name or attributes."""
        inputs = self.inputs if inputs is None else tuple(inputs)
        outputs = self.outputs if outputs is None else tuple(outputs)
        name = name or self.proto.name
        if (inputs, outputs, name) == (self.inputs, self.outputs, self.proto.name) and not changes:
            return self
        proto = NodeProto()
        proto.CopyFrom(self.proto)
        del proto.input[:], proto.output[:]
        proto.input.extend(inputs)
        proto.output.extend(outputs)
        proto.name = name
        _keep_named(proto.attribute, {attribute.name for attribute in proto.attribute} - changes.keys())
        proto.attribute.extend(helper.make_attribute(key, value) for key, value in changes.items())
        return Op(proto)


class Graph:
    """The main graph of a model.

    Attributes:
        model: the original model, for its inputs, outputs, functions and metadata.
        ops: the nodes in order.
        constants: the constants of this graph, shared with all graphs that are derived from it.
        opset: version of ONNX's own domain.
        outputs: names of the outputs.
    """

    def __init__(self, model: ModelProto, ops: Sequence[Op], constants: Constants, fresh: FreshNames) -> None:
        self.model, self.ops, self.constants, self._fresh = model, ops, constants, fresh
        self.opset = opsets_of(model.opset_import).get("", 0)
        self.outputs = [output.name for output in model.graph.output]

    @classmethod
    def of(cls, model: ModelProto, folder: Folder | None = None) -> Graph:
        """Return the main graph of a model whose external data is in `folder`."""
        return cls(model, [*map(Op, model.graph.node)], Constants(model, folder), FreshNames(model))

    def with_ops(self, ops: Sequence[Op]) -> Graph:
        """Return the graph with other nodes; unused nodes of ONNX's own operators are dropped."""
        needed_names = {*self.outputs}
        kept_ops = []
        for op in reversed(ops):
            if ":" in op.op_type or not op.outputs or not needed_names.isdisjoint(op.outputs):
                kept_ops.append(op)
                needed_names.update(op.inputs, op.captured)
        return Graph(self.model, kept_ops[::-1], self.constants, self._fresh)

    @cached_property
    def makers(self) -> dict[str, int]:
        """The number of the node that makes each value, by the value's name."""
        return {name: node_number for node_number, op in enumerate(self.ops) for name in op.outputs if name}

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """By value name, the numbers of the nodes that read it, one per read, and `OUTSIDE_GRAPH` for graph outputs."""
        readers: dict[str, list[int]] = {}
        for node_number, op in enumerate(self.ops):
            for name in op.inputs:
                readers.setdefault(name, []).append(node_number)
            for name in op.captured:
                readers.setdefault(name, []).append(OUTSIDE_GRAPH)
        for name in self.outputs:
            readers.setdefault(name, []).append(OUTSIDE_GRAPH)
        return readers

    def maker(self, name: str) -> Op | None:
        """Return the node that makes a value; None for inputs and initializers."""
        return self.ops[self.makers[name]] if name in self.makers else None

    def is_read_once(self, name: str) -> bool:
        """Whether a value is read by a single node, once, and not outside."""
        readers = self.readers.get(name, ())
        return len(readers) == 1 and OUTSIDE_GRAPH not in readers

    def new_name(self, base: str, purpose: str) -> str:
        """Return an unused name."""
        return self._fresh.new(base, purpose)

    def constant(self, base: str, array: Array) -> str:
        """Return the name of a constant that equals an array; a new one is named after `base`."""
        return self.constants.new(array, lambda: self._fresh.new(base, "constant"))

    @property
    def initial(self) -> int:
        """The number of Constant nodes that can be initializers."""
        return sum(self._initial(op) is not None for op in self.ops)

    def _initial(self, op: Op) -> TensorProto | None:
        """Return a Constant as an initializer; None for other nodes, model outputs, strings and sparse tensors."""
        if op.op_type != "Constant" or op.outputs[0] in self.outputs or len(op.proto.attribute) != 1:
            return None
        (name,), (attribute,) = op.outputs, op.proto.attribute
        if attribute.name in NUMBER_ATTRIBUTES:
            return numpy_helper.from_array(self.constants.read(name), name)
        if attribute.name != "value":
            return None
        tensor = TensorProto()
        tensor.CopyFrom(attribute.t)
        tensor.name = name
        return tensor

    @cached_property
    def bare(self) -> ModelProto:
        """The model of this graph without constants."""
        model = self.model
        graph = GraphProto(input=model.graph.input, output=model.graph.output, node=[op.proto for op in self.ops])
        graph.sparse_initializer.extend(model.graph.sparse_initializer)
        opsets, functions = model.opset_import, model.functions
        return ModelProto(ir_version=model.ir_version, graph=graph, opset_import=opsets, functions=functions)

    def to_model(self, external_data: Callable[[Array], Mapping[str, str] | None] | None = None) -> ModelProto:
        """Return this graph as a model, without initializers and declarations that only removed nodes used.

        Constant nodes become initializers.

        Args:
            external_data: returns the entries of a new constant that becomes external data, and None for others.

        Raises:
            ModelError: a new constant that is not placed has 2 GiB or more.
        """
        result = ModelProto()
        result.CopyFrom(self.model)
        graph = result.graph
        del graph.node[:]
        initial = {op: tensor for op in self.ops if (tensor := self._initial(op)) is not None}
        graph.node.extend(op.proto for op in self.ops if op not in initial)
        used = self.readers.keys()
        formerly = {name for node in self.model.graph.node for name in (*node.input, *_capture(node))}
        inputs = {value.name for value in graph.input}
        unused = {tensor.name for tensor in graph.initializer if tensor.name in formerly - used - inputs}
        _keep_named(graph.initializer, {tensor.name for tensor in graph.initializer} - unused)
        graph.initializer.extend(initial.values())
        for name, array in self.constants.new_arrays.items():
            if name in used:
                entries = None if external_data is None else external_data(array)
                if entries is None:
                    if array.nbytes > MAX_BYTES:
                        advice = "`anydml slim` without --prove writes it to a file of its own"
                        message = f"constant {show(name)} has {bytes_text(array.nbytes)}, and a ModelProto holds 2 GiB"
                        raise ModelError(f"{message}: {advice}", field=name)
                    graph.initializer.append(numpy_helper.from_array(array, name))
                    continue
                tensor = graph.initializer.add(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
                tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
                for key, value in entries.items():
                    tensor.external_data.add(key=key, value=value)
        new_values = {name for op in self.ops if op not in initial for name in op.outputs}
        _keep_named(graph.value_info, new_values)
        annotations = [
            annotation for annotation in graph.quantization_annotation if annotation.tensor_name not in unused
        ]
        del graph.quantization_annotation[:]
        graph.quantization_annotation.extend(annotations)
        return result


def _capture(node: NodeProto) -> Iterator[str]:
    for body in bodies(subgraphs(node)):
        for inner in body.node:
            yield from inner.input
        for output in body.output:
            yield output if isinstance(output, str) else output.name


def _keep_named(repeated: Any, names: Set[str]) -> None:
    """Delete the items of a repeated field whose names are not in `names`."""
    for k in reversed(range(len(repeated))):
        if repeated[k].name not in names:
            del repeated[k]
