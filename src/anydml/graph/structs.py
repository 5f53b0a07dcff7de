"""The parts of DML_GRAPH_DESC: nodes, and edges between them (DirectML.h, target version 0x2100)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from anydml.fields import integer, type_error
from anydml.operators.base import OperatorDesc
from anydml.records import Record, record
from anydml.tensor import TensorDesc
from anydml.text import escape_controls

NAME = "DML_GRAPH"


class ExecutionFlags(enum.IntFlag, boundary=enum.STRICT):
    """DML_EXECUTION_FLAGS. Accepted and without effect.

    Examples:
        >>> dml.ExecutionFlags.NONE | dml.ExecutionFlags.DISABLE_META_COMMANDS
        <ExecutionFlags.DISABLE_META_COMMANDS: 2>
    """

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


@record
class OperatorGraphNodeDesc(Record):
    """DML_OPERATOR_GRAPH_NODE_DESC: an operator, with inputs and outputs in binding order.

    Args:
        operator: the operator's desc. Omitted optional tensors are not counted.
        name: name in explanations and errors.

    Raises:
        DescTypeError: `operator` is not an operator's desc.

    Examples:
        >>> same = dml.ElementWiseIdentityOperatorDesc(dml.TensorDesc("INT8", [4]), dml.TensorDesc("INT8", [4]))
        >>> dml.OperatorGraphNodeDesc(same, "copy").name
        'copy'
    """

    operator: OperatorDesc
    name: str | None

    def __init__(self, operator: OperatorDesc, name: str | None = None) -> None:
        if not isinstance(operator, OperatorDesc) or isinstance(operator, Graph):
            raise type_error(NAME, "Operator", operator, "an operator's desc, such as SplitOperatorDesc")
        object.__setattr__(self, "operator", operator)
        object.__setattr__(self, "name", _name(name))

    @property
    def inputs(self) -> tuple[tuple[str, TensorDesc], ...]:
        """Field names and tensors of the inputs, in binding order."""
        return self.operator.inputs

    @property
    def outputs(self) -> tuple[tuple[str, TensorDesc], ...]:
        """Field names and tensors of the outputs, in binding order."""
        return self.operator.outputs


@record
class ConstantDataGraphNodeDesc(Record):
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: bytes that are known when the graph is compiled; feature level 6_2.

    Args:
        data: a contiguous buffer, such as an array; DataSize is its size. It is copied.
        name: name in explanations and errors.

    Raises:
        DescTypeError: `data` is not a contiguous buffer.

    Examples:
        >>> len(dml.ConstantDataGraphNodeDesc(np.arange(4, dtype="i4")).data)
        16
    """

    data: bytes
    name: str | None

    def __init__(self, data: Any, name: str | None = None) -> None:
        try:
            view = memoryview(data)
        except TypeError:
            raise type_error(NAME, "Data", data, "a buffer, such as bytes or an array") from None
        object.__setattr__(self, "data", view.tobytes())
        object.__setattr__(self, "name", _name(name))

    @property
    def data_size(self) -> int:
        """Size of `data` in bytes."""
        return len(self.data)


class _Edge(Record):
    """Base class of edges: node and tensor numbers, from 0 on, and a name."""

    __slots__ = ()

    __match_args__: tuple[str, ...]

    def __post_init__(self) -> None:
        for field in self.__match_args__:
            value = getattr(self, field)
            words = "".join(word.title() for word in field.split("_"))
            object.__setattr__(self, field, _name(value) if field == "name" else integer(NAME, words, value))


@record
class InputGraphEdgeDesc(_Edge):
    """DML_INPUT_GRAPH_EDGE_DESC: from an input of the graph to an input of a node.

    Examples:
        >>> dml.InputGraphEdgeDesc(graph_input_index=0, to_node_index=1, to_node_input_index=0)
        InputGraphEdgeDesc(graph_input_index=0, to_node_index=1, to_node_input_index=0, name=None)
    """

    graph_input_index: int
    to_node_index: int
    to_node_input_index: int
    name: str | None = None


@record
class OutputGraphEdgeDesc(_Edge):
    """DML_OUTPUT_GRAPH_EDGE_DESC: from an output of a node to an output of the graph.

    Examples:
        >>> dml.OutputGraphEdgeDesc(from_node_index=1, from_node_output_index=0, graph_output_index=0)
        OutputGraphEdgeDesc(from_node_index=1, from_node_output_index=0, graph_output_index=0, name=None)
    """

    from_node_index: int
    from_node_output_index: int
    graph_output_index: int
    name: str | None = None


@record
class IntermediateGraphEdgeDesc(_Edge):
    """DML_INTERMEDIATE_GRAPH_EDGE_DESC: from an output of a node to an input of another.

    The tensors at its ends may differ in all but TotalTensorSizeInBytes: the second reads the bytes of the first.

    Examples:
        >>> dml.IntermediateGraphEdgeDesc(0, 0, 1, 0).to_node_index
        1
    """

    from_node_index: int
    from_node_output_index: int
    to_node_index: int
    to_node_input_index: int
    name: str | None = None


NodeDesc = OperatorGraphNodeDesc | ConstantDataGraphNodeDesc


@record
class Graph(OperatorDesc):
    """The fields of `anydml.GraphDesc`, which documents them, and the graph's tensors."""

    input_count: int
    output_count: int
    nodes: tuple[NodeDesc, ...]
    input_edges: tuple[InputGraphEdgeDesc, ...]
    output_edges: tuple[OutputGraphEdgeDesc, ...]
    intermediate_edges: tuple[IntermediateGraphEdgeDesc, ...]

    OPERATOR: ClassVar[str] = NAME

    def __init__(
        self,
        input_count: int,
        output_count: int,
        nodes: Sequence[NodeDesc],
        input_edges: Sequence[InputGraphEdgeDesc],
        output_edges: Sequence[OutputGraphEdgeDesc],
        intermediate_edges: Sequence[IntermediateGraphEdgeDesc] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "input_count", integer(NAME, "InputCount", input_count))
        put(self, "output_count", integer(NAME, "OutputCount", output_count))
        put(self, "nodes", _convert_all("Nodes", nodes, OperatorGraphNodeDesc, ConstantDataGraphNodeDesc))
        put(self, "input_edges", _convert_all("InputEdges", input_edges, InputGraphEdgeDesc))
        put(self, "output_edges", _convert_all("OutputEdges", output_edges, OutputGraphEdgeDesc))
        put(
            self, "intermediate_edges", _convert_all("IntermediateEdges", intermediate_edges, IntermediateGraphEdgeDesc)
        )

    @property
    def inputs(self) -> tuple[tuple[str, TensorDesc], ...]:
        """Names and tensors of the graph's inputs: each has the tensor of the first node input it feeds."""
        graph_inputs: dict[int, TensorDesc] = {}
        tensors = node_tensors(self)
        for edge in self.input_edges:
            tensor = tensors[edge.to_node_index].inputs[edge.to_node_input_index][1]
            graph_inputs.setdefault(edge.graph_input_index, tensor)
        return tuple((f"Inputs[{k}]", graph_inputs[k]) for k in range(self.input_count))

    @property
    def outputs(self) -> tuple[tuple[str, TensorDesc], ...]:
        """Names and tensors of the graph's outputs: those of the node outputs that they come from."""
        tensors = node_tensors(self)
        graph_outputs = {
            edge.graph_output_index: tensors[edge.from_node_index].outputs[edge.from_node_output_index][1]
            for edge in self.output_edges
        }
        return tuple((f"Outputs[{k}]", graph_outputs[k]) for k in range(self.output_count))

    @property
    def tensor_count(self) -> int:
        """Number of inputs and outputs."""
        return self.input_count + self.output_count


class NodeTensors(NamedTuple):
    """Field names and tensors of a node's inputs and outputs; a constant has none."""

    inputs: Sequence[tuple[str, TensorDesc]]
    outputs: Sequence[tuple[str, TensorDesc]]


def node_tensors(desc: Graph) -> list[NodeTensors]:
    """Return the tensors of all nodes. An operator of many tensors builds its list at each access."""
    return [
        NodeTensors(node.inputs, node.outputs) if isinstance(node, OperatorGraphNodeDesc) else NodeTensors((), ())
        for node in desc.nodes
    ]


def node_label(desc: Graph, node_number: int) -> str:
    """Return a node's name in errors and explanations: ``Nodes[2] ("crop")``."""
    name = desc.nodes[node_number].name
    return f"Nodes[{node_number}]" + (f' ("{escape_controls(name)}")' if name else "")


def _convert_all(field: str, values: Any, *classes: type) -> tuple[Any, ...]:
    if not isinstance(values, (list, tuple)):
        raise type_error(NAME, field, values, "a list")
    for k, value in enumerate(values):
        if not isinstance(value, classes):
            raise type_error(NAME, f"{field}[{k}]", value, " or ".join(class_.__name__ for class_ in classes))
    return tuple(values)


def _name(name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise type_error(NAME, "Name", name, "a string, or None")
    return name
