"""A graph that is ready to run: checked once, then evaluated as often as it is given inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.files.json_path import names, show
from anydml.onnx.budget import Budget
from anydml.onnx.checks import check, inlined
from anydml.onnx.control import unrolled
from anydml.onnx.graph import Node, decisive, last_use
from anydml.onnx.operators import flowing, stored_array
from anydml.onnx.read import read_nodes
from anydml.onnx.replay import Recording, Replays
from anydml.onnx.running import Running, tensors_in
from anydml.onnx.tensors import TEXT, Array, numpy_type, sequence_type, sizes_text, tensor_type, to_array, type_name
from anydml.onnx.values import Flowing, Nothing, Tensor, Tensors


class Program:
    """A model made of operators that anydml has; its functions are inlined.

    Nodes are composed region by region: each region is one program of moves. A region ends where the elements of a
    result are looked at, or something is written over it.

    Args:
        model: the model, its external data loaded. It is not changed.
        is_fused: whether nodes are composed; otherwise each is a program of its own.

    Attributes:
        inputs: the graph's inputs, in order; those with a default come with it in `defaults`.
        outputs: names of the graph's outputs, in order.

    Raises:
        ModelError: the model is not valid, or has an operator, a type or a kind of value that anydml does not have.
    """

    def __init__(self, model: ModelProto, is_fused: bool = True) -> None:
        check(model)
        model = unrolled(inlined(model))
        graph = model.graph
        self.nodes = read_nodes(model)
        if graph.sparse_initializer:
            name = show(graph.sparse_initializer[0].values.name)
            raise ModelError(f"initializer {name} is sparse; anydml moves dense tensors", rule="tensors must be dense")
        self.defaults = _defaults(graph)
        self.inputs = {value.name: Input(value) for value in graph.input}
        self.outputs = tuple(value.name for value in graph.output)
        self._is_fused = is_fused
        self._replays = Replays()
        self._last_use = last_use(self.nodes, self.outputs)
        self._decisive = decisive(self.nodes)

    def run(self, given: Mapping[str, Any], log: Callable[[str], object] | None = None) -> tuple[Any, ...]:
        """Evaluate the graph.

        Args:
            given: an array for every input that has no default, by name, or a list of arrays for a sequence; others may
                be given too.
            log: is told which nodes have become one program, and of what moves.

        Returns:
            The outputs in order, each an array of its own, or a list of them.

        Raises:
            ModelError: an input is missing, unknown, or of another type or shape; a node's inputs do not fit it; or the
                values that are alive at one time do not fit into memory.
        """
        key, replay = self._replays.find(given)
        if replay is not None and log is None:
            # Such inputs were checked before.
            self.programs = replay.programs
            return replay.run([*given.values()])
        unknown = next((name for name in given if name not in self.inputs), None)
        if unknown is not None:
            raise ModelError(f"there is no input {show(unknown)}; the graph has {names(self.inputs)}", field=unknown)
        missing = next((name for name in self.inputs if name not in given and name not in self.defaults), None)
        if missing is not None:
            raise ModelError(f"input {show(missing)} is not given", field=missing, rule="every input must have a value")
        budget = Budget()
        values: dict[str, Flowing] = {name: Tensor.of(array) for name, array in self.defaults.items()}
        values.update((name, flowing(self.inputs[name].check(value, budget))) for name, value in given.items())
        # The arrays, because a number may be given to another array once they are gone.
        foreign = {id(array): array for array in (tensor.array for tensor in tensors_in([*values.values()]))}
        running = Running(budget, self._is_fused, log)
        if key is not None:
            running.recording = Recording([*given.values()], [*self.defaults.values()])
        for i, node in enumerate(self.nodes):
            inputs = [_value(values, node, name) for name in node.inputs]
            found = running.run(node, inputs, not self._decisive.isdisjoint(node.outputs))
            values.update((name, value) for name, value in zip(node.outputs, found, strict=False) if name)
            # Not kept until the next node has run.
            del found, inputs
            for name in self._last_use.get(i, ()):
                values.pop(name, None)
        self.programs = running.programs
        results = self._results(values, foreign, running)
        if running.recording and (made := running.recording.replay([values[name] for name in self.outputs])):
            self._replays.keep(key, made)
        return results

    def _results(self, values: dict[str, Flowing], foreign: dict[int, Any], running: Running) -> tuple[Any, ...]:
        for name in self.outputs:
            if name not in values:
                raise ModelError(f"no node makes the output {show(name)}", field=name)
        for name in values.keys() - {*self.outputs}:
            del values[name]
        running.flush()
        self.programs = running.programs
        results: list[Any] = []
        for name in self.outputs:
            value = values[name]
            copies = [_own(name, tensor, foreign, running.budget) for tensor in tensors_in([value])]
            nothing = None if isinstance(value, Nothing) else copies
            results.append(nothing if isinstance(value, Tensors) else copies[0])
        return tuple(results)


def _own(name: str, tensor: Tensor, foreign: dict[int, Any], budget: Budget) -> Array:
    """A result as an array that nobody else has: Identity hands arrays on as they are."""
    array = stored_array(tensor)
    if id(array) in foreign or not array.flags.writeable or not array.flags.owndata:
        budget.ask(f"output {show(name)}", "a copy of its own", array.nbytes)
        array = array.copy()
        budget.hold(array)
    foreign[id(array)] = array
    return array


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
        self.is_optional = value.type.WhichOneof("value") == "optional_type"
        if self.is_optional:
            value = ValueInfoProto(name=value.name, type=value.type.optional_type.elem_type)
        self.is_sequence = value.type.WhichOneof("value") == "sequence_type"
        self.elem_type, self.sizes = sequence_type(value) if self.is_sequence else tensor_type(value)
        dtype = numpy_type(self.elem_type)
        if dtype is None:
            raise ModelError(f"input {show(self.name)} has {type_name(self.elem_type)}", field=self.name)
        self.dtype = dtype

    def check(self, value: Any, budget: Budget) -> Array | list[Array] | None:
        """A value as an array of this input's type, or, for a sequence, a list of them; an optional one may be None.

        Raises:
            ModelError: its type, its rank or one of its sizes differs, or there is not enough memory.
        """
        if value is None and self.is_optional:
            return None
        if self.is_sequence:
            if not isinstance(value, (list, tuple)):
                message = f"input {show(self.name)} is a {type(value).__name__}, but the graph has a sequence"
                raise ModelError(message, field=self.name, rule="a sequence must be a list of arrays")
            return [self._check(each, budget) for each in value]
        return self._check(value, budget)

    def _check(self, value: Any, budget: Budget) -> Array:
        array: Array = np.asarray(value)
        if self.elem_type == TensorProto.STRING and array.dtype.kind in "UT":
            size = array.size * (8 + TEXT) + array.nbytes
            budget.ask(f"input {show(self.name)}", "reading it", size)
            array = array.astype(object)
        if array.dtype != self.dtype:
            message = f"input {show(self.name)} is {array.dtype}, but the graph has {type_name(self.elem_type)}"
            raise ModelError(message, field=self.name, rule="inputs must have the graph's types")
        if self.sizes is None:
            return array
        fits = len(array.shape) == len(self.sizes) and all(
            not isinstance(size, int) or size == actual for size, actual in zip(self.sizes, array.shape, strict=True)
        )
        if not fits:
            sizes = sizes_text(self.sizes)
            message = f"input {show(self.name)} has shape {list(array.shape)}, but the graph has {sizes}"
            raise ModelError(message, field=self.name, rule="inputs must have the graph's sizes")
        return array


def _value(values: Mapping[str, Flowing], node: Node, name: str) -> Flowing | None:
    if not name:
        return None
    if name not in values:
        raise node.error(f"nothing makes its input {show(name)} before it runs", name, "nodes come in order")
    return values[name]
