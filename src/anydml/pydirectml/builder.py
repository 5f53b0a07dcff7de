"""PyDirectML's device and graph builder: compile expressions to a graph and run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml import device
from anydml.errors import BindingError, DescError
from anydml.fields import integer
from anydml.graph.desc import GraphDesc
from anydml.graph.structs import (
    ExecutionFlags,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
)
from anydml.operators.base import OperatorDesc
from anydml.pydirectml.expressions import Binding, Expression, Source
from anydml.pydirectml.tensor_descs import TensorData, TensorDesc
from anydml.tensor import TensorDesc as BufferTensor


class Device:
    """The CPU: PyDirectML's data is read from host memory and returned there.

    Args:
        use_gpu: ignored; accepted for compatibility.
        use_debug_layer: ignored; accepted for compatibility.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> device = pydml.Device()
        >>> builder = pydml.GraphBuilder(device)
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 1, 3]))
        >>> mirrored = pydml.slice(x, [0] * 4, [1, 1, 1, 3], [1, 1, 1, -1])
        >>> model = builder.build(pydml.ExecutionFlags.NONE, [mirrored])
        >>> (data,) = device.compute(model, [pydml.Binding(x, [1, 2, 3])], [mirrored])
        >>> np.array(data).ravel().tolist()
        [3.0, 2.0, 1.0]
    """

    def __init__(self, use_gpu: bool = True, use_debug_layer: bool = False) -> None:
        self.device = device.Device("cpu")

    def compute(
        self, model: Model, inputs: Sequence[Binding | None], outputs: Sequence[Expression]
    ) -> list[TensorData]:
        """Run a model and return its outputs, each in the shape and data type of its expression.

        Args:
            model: a model from `GraphBuilder.build`.
            inputs: a binding for each input that the model reads, in any order; others are ignored.
            outputs: the expressions that the model was built from.

        Raises:
            BindingError: an input is unbound, bound twice or of another graph, or `outputs` are not those of the model.
        """
        bound: dict[int, Binding] = {}
        for binding in inputs:
            if binding is None:
                continue
            if binding.index in bound:
                raise _unbound(f"input {binding.index}", "is bound twice")
            if binding.builder is not model.builder:
                raise _unbound(f"input {binding.index}", "is bound by an expression of another GraphBuilder")
            bound[binding.index] = binding
        missing = next((index for index in model.inputs if index not in bound), None)
        if missing is not None:
            raise _unbound(f"input {missing}", "is not bound")
        if [*map(id, outputs)] != [*map(id, model.outputs)]:
            message = "compute: outputs are not the expressions that the model was built from"
            raise BindingError(message, "compute", "outputs", "pass those that build got, in their order")
        buffers = [np.zeros(expr.tensor.size_in_bytes, np.uint8) for expr in outputs]
        model.compiled.bind([bound[index].bytes for index in model.inputs], buffers).dispatch()
        return [TensorData.of(_as_array(buffer, expr.tensor)) for expr, buffer in zip(outputs, buffers, strict=True)]

    def __repr__(self) -> str:
        return "dml.Device on CPU"


class GraphBuilder:
    """A graph under construction.

    Args:
        device: the device that the graph is compiled for.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 1, 3]))
        >>> mirrored = pydml.slice(x, [0] * 4, [1, 1, 1, 3], [1, 1, 1, -1])
        >>> model = builder.build(pydml.ExecutionFlags.NONE, [mirrored])
        >>> model.inputs
        [0]
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.nodes: list[tuple[OperatorDesc, tuple[Expression, ...]]] = []

    def add(self, desc: OperatorDesc, *inputs: Expression) -> Expression:
        """Add a node with one output, and return that output.

        Raises:
            DescError: the operator violates a rule, or an input belongs to another graph.
        """
        desc.check(self.device.device.feature_level)
        for expression in inputs:
            if expression.builder is not self:
                raise DescError(f"{desc.OPERATOR}: an input is an expression of another GraphBuilder", desc.OPERATOR)
        self.nodes.append((desc, inputs))
        return Expression.of(self, Source(len(self.nodes) - 1, 0), desc.outputs[0][1])

    def build(self, flags: ExecutionFlags, outputs: Sequence[Expression]) -> Model:
        """Compile the part of the graph that `outputs` depend on.

        Raises:
            DescError: an output is itself an input of the graph, or belongs to another graph, or a rule is violated.
        """
        ends: list[tuple[Source, int, int]] = []
        ordered: list[int] = []
        waiting = [self._node(expr) for expr in outputs]
        for node in waiting:
            if node in ordered:
                continue
            ordered.append(node)
            for k, expr in enumerate(self.nodes[node][1]):
                ends.append((expr.source, node, k))
                if expr.source.node is not None:
                    waiting.append(expr.source.node)
        numbers = {node: new_number for new_number, node in enumerate(sorted(ordered))}
        inputs = sorted({source.number for source, _, _ in ends if source.node is None})
        desc = GraphDesc(
            len(inputs),
            len(outputs),
            [OperatorGraphNodeDesc(self.nodes[node][0]) for node in numbers],
            [
                InputGraphEdgeDesc(inputs.index(source.number), numbers[node], k)
                for source, node, k in ends
                if source.node is None
            ],
            [OutputGraphEdgeDesc(numbers[self._node(expr)], expr.source.number, k) for k, expr in enumerate(outputs)],
            [
                IntermediateGraphEdgeDesc(numbers[source.node], source.number, numbers[node], k)
                for source, node, k in ends
                if source.node is not None
            ],
        )
        compiled = self.device.device.compile_graph(desc, flags)
        return Model(compiled, self, inputs, [*outputs])

    def _node(self, expr: Expression) -> int:
        node = expr.source.node
        if expr.builder is not self:
            raise DescError("build: an output is an expression of another GraphBuilder", "build", "outputs")
        if node is None:
            message = f"build: an output is input {expr.source.number} itself: insert activation_identity"
            raise DescError(message, "build", "outputs", "a node must lie between an input and an output")
        return node


class Model:
    """A compiled graph; ``print(model)`` lists its moves.

    Attributes:
        compiled: the compiled graph.
        builder: the builder of its expressions.
        inputs: numbers of the inputs that it reads, in binding order.
        outputs: the expressions that it was built from.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 1, 3]))
        >>> mirrored = pydml.slice(x, [0] * 4, [1, 1, 1, 3], [1, 1, 1, -1])
        >>> model = builder.build(pydml.ExecutionFlags.NONE, [mirrored])
        >>> model.inputs, len(model.outputs)
        ([0], 1)
    """

    def __init__(
        self, compiled: device.CompiledGraph, builder: GraphBuilder, inputs: list[int], outputs: list[Expression]
    ) -> None:
        self.compiled = compiled
        self.builder = builder
        self.inputs = inputs
        self.outputs = outputs

    def __str__(self) -> str:
        return str(self.compiled)


def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """Create an expression for an input of a graph.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> x.input_index, x.get_output_desc().sizes
        (0, [1, 1, 2, 3])
    """
    index = integer("input_tensor", "input_index", input_index)
    if index < 0:
        raise DescError(f"input_tensor: input_index is {index}", "input_tensor", "input_index", "it must be 0 or more")
    return Expression.of(scope, Source(None, index), tensor_desc.tensor)


def _as_array(buffer: np.ndarray[Any, Any], tensor: BufferTensor) -> np.ndarray[Any, Any]:
    return np.ndarray(tensor.sizes, tensor.data_type.dtype, buffer, 0, tensor.layout.strides)


def _unbound(field: str, reason: str) -> BindingError:
    return BindingError(
        f"compute: {field} {reason}", "compute", field, "each input that a model reads must be bound once"
    )
