"""A graph that is ready to run: checked once, then evaluated node by node as often as there are inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.files.json_path import names, show
from anydml.onnx.budget import Budget
from anydml.onnx.checks import check, inlined
from anydml.onnx.graph import Node, last_use, read_nodes
from anydml.onnx.operators import run_node
from anydml.onnx.tensors import TEXT, Array, numpy_type, sizes_text, tensor_type, to_array, type_name


class Program:
    """A model made of operators that anydml has; its functions are inlined.

    Args:
        model: the model, its external data loaded. It is not changed.

    Attributes:
        inputs: the graph's inputs, in order; those with a default come with it in `defaults`.
        outputs: names of the graph's outputs, in order.

    Raises:
        ModelError: the model is not valid, or has an operator, a type or a kind of value that anydml does not have.
    """

    def __init__(self, model: ModelProto) -> None:
        check(model)
        model = inlined(model)
        graph = model.graph
        self.nodes = read_nodes(model)
        if graph.sparse_initializer:
            name = show(graph.sparse_initializer[0].values.name)
            raise ModelError(f"initializer {name} is sparse; anydml moves dense tensors", rule="tensors are dense")
        self.defaults = _defaults(graph)
        self.inputs = {value.name: Input(value) for value in graph.input}
        self.outputs = tuple(value.name for value in graph.output)
        self._last_use = last_use(self.nodes, self.outputs)

    def run(self, given: Mapping[str, Any]) -> tuple[Array, ...]:
        """Evaluate the graph.

        Args:
            given: an array for every input that has no default, by name; others may be given too.

        Returns:
            The outputs in order, each an array of its own.

        Raises:
            ModelError: an input is missing, unknown, or of another type or shape; a node's inputs do not fit it; or the
                values that are alive at one time do not fit into memory.
        """
        unknown = next((name for name in given if name not in self.inputs), None)
        if unknown is not None:
            raise ModelError(f"there is no input {show(unknown)}; the graph has {names(self.inputs)}", field=unknown)
        missing = next((name for name in self.inputs if name not in given and name not in self.defaults), None)
        if missing is not None:
            raise ModelError(f"input {show(missing)} is not given", field=missing, rule="every input has a value")
        budget = Budget()
        values: dict[str, Array] = {**self.defaults}
        values.update((name, self.inputs[name].check(value, budget)) for name, value in given.items())
        # With the arrays, because a number may be given to another array once they are gone.
        foreign = {id(array): array for array in values.values()}
        for i, node in enumerate(self.nodes):
            found = run_node(node, [_value(values, node, name) for name in node.inputs], budget)
            _keep(node, found, values, foreign, budget)
            # Not kept until the next node has run.
            del found
            dropped = (values.pop(name, None) for name in self._last_use.get(i, ()))
            budget.release(array for array in dropped if array is not None)
        return self._results(values, foreign, budget)

    def _results(self, values: Mapping[str, Array], foreign: dict[int, Array], budget: Budget) -> tuple[Array, ...]:
        results = []
        for name in self.outputs:
            if name not in values:
                raise ModelError(f"no node makes the output {show(name)}", field=name)
            array = values[name]
            # Identity hands arrays on as they are; nobody else's array may be given away, nor one of ours twice.
            if id(array) in foreign or not array.flags.writeable:
                budget.ask(f"output {show(name)}", "a copy of its own", array.nbytes)
                array = array.copy()
                budget.hold(array)
            results.append(array)
            foreign[id(array)] = array
        return tuple(results)


def _keep(
    node: Node, found: Sequence[Array], values: dict[str, Array], foreign: Mapping[int, Array], budget: Budget
) -> None:
    """Give a node's results their names."""
    for name, array in zip(node.outputs, found, strict=False):
        if name:
            if id(array) not in foreign:
                budget.hold(array)
            values[name] = array


def _defaults(graph: GraphProto) -> dict[str, Array]:
    """The initializers, by name."""
    budget = Budget()
    found = {}
    for tensor in graph.initializer:
        found[tensor.name] = array = to_array(tensor, budget)
        budget.hold(array)
    return found


class Input:
    """A graph's input: what may be given for it.

    Raises:
        ModelError: it is no tensor, or of a type that onnx does not know.
    """

    def __init__(self, value: ValueInfoProto) -> None:
        self.name = value.name
        self.elem_type, self.sizes = tensor_type(value)
        dtype = numpy_type(self.elem_type)
        if dtype is None:
            raise ModelError(f"input {show(self.name)} has {type_name(self.elem_type)}", field=self.name)
        self.dtype = dtype

    def check(self, value: Any, budget: Budget) -> Array:
        """A value as an array of this input's type.

        Raises:
            ModelError: its type, its rank or one of its sizes differs, or there is not enough memory.
        """
        array: Array = np.asarray(value)
        if self.elem_type == TensorProto.STRING and array.dtype.kind in "UT":
            size = array.size * (8 + TEXT) + array.nbytes
            budget.ask(f"input {show(self.name)}", "reading it", size)
            array = array.astype(object)
        if array.dtype != self.dtype:
            message = f"input {show(self.name)} is {array.dtype}, but the graph has {type_name(self.elem_type)}"
            raise ModelError(message, field=self.name, rule="inputs have the graph's types")
        if self.sizes is None:
            return array
        fits = len(array.shape) == len(self.sizes) and all(
            not isinstance(size, int) or size == actual for size, actual in zip(self.sizes, array.shape, strict=True)
        )
        if not fits:
            sizes = sizes_text(self.sizes)
            message = f"input {show(self.name)} has shape {list(array.shape)}, but the graph has {sizes}"
            raise ModelError(message, field=self.name, rule="inputs have the graph's sizes")
        return array


def _value(values: Mapping[str, Array], node: Node, name: str) -> Array | None:
    if not name:
        return None
    if name not in values:
        raise node.error(f"nothing makes its input {show(name)} before it runs", name, "nodes come in order")
    return values[name]
