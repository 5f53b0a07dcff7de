"""A graph that is ready to run: checked once, then evaluated as often as it is given inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from anydml.errors import BindingError, DescError, FuseError, ModelError
from anydml.files.json_path import names, show
from anydml.onnx.budget import Budget
from anydml.onnx.checks import check, inlined
from anydml.onnx.control import unrolled
from anydml.onnx.graph import Node, decisive, last_use
from anydml.onnx.moving import NotKnownError
from anydml.onnx.operators import flowing, stored_array
from anydml.onnx.read import read_nodes
from anydml.onnx.running import Running, tensors_in
from anydml.onnx.tensors import TEXT, Array, numpy_type, sequence_type, sizes_text, tensor_type, to_array, type_name
from anydml.onnx.tracing import Tracing
from anydml.onnx.values import FEW, Flowing, Nothing, Sizes, Tensor, Tensors, known_array
from anydml.tracing.fused import Fused, fuse
from anydml.tracing.structure import leaves
from anydml.tracing.trace import TracedArray


class Program:
    """A model made of operators that anydml has; its functions are inlined.

    It is one program of moves, made once for all sizes of inputs that its own shape arithmetic lets be (see
    `anydml.fuse`). Where elements decide what it does, it is composed again in each run, region by region: a region
    ends where the elements of a result are looked at, or something is written over it.

    Args:
        model: the model, its external data loaded. It is not changed.
        is_fused: whether nodes are composed; otherwise each is a program of its own.

    Attributes:
        inputs: the graph's inputs, in order; those with a default come with it in `defaults`.
        outputs: names of the graph's outputs, in order.
        programs: how many programs the last run took.

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
        self.programs = 0
        self._is_fused = is_fused
        has_text = any(each.dtype.hasobject for each in self.inputs.values())
        self._moved: Fused | None = fuse(self._traced) if is_fused and not has_text else None
        self._last_use = last_use(self.nodes, self.outputs)
        self._decisive = decisive(self.nodes)

    def run(self, given: Mapping[str, Any], log: Callable[[str], object] | None = None) -> tuple[Any, ...]:
        """Evaluate the graph.

        Args:
            given: an array for every input that has no default, by name, or a list of arrays for a sequence; others may
                be given too.
            log: is told which nodes have become one program, and of what moves: they are composed region by region.

        Returns:
            The outputs in order, each an array of its own, or a list of them.

        Raises:
            ModelError: an input is missing, unknown, or of another type or shape; a node's inputs do not fit it; or the
                values that are alive at one time do not fit into memory.
        """
        moved = self._moved
        arguments = None if moved is None or log is not None else self._arguments(given)
        if moved is not None and arguments is not None:
            try:
                found: tuple[Any, ...] = moved(*arguments)
            except (FuseError, NotKnownError):
                # Elements decide what the graph does, whatever is given.
                self._moved = None
            except (IndexError, DescError, BindingError, MemoryError):
                # Node by node it is known which one refuses.
                pass
            else:
                self.programs = 1
                return found
        return self._run(given, log)

    def _arguments(self, given: Mapping[str, Any]) -> list[Any] | None:
        """What is given for each input: None where it has a default; None at all where names are wrong.

        Numbers that may decide sizes are given as numbers, which `fuse` leaves open, and no arrays.
        """
        if not given.keys() <= self.inputs.keys():
            return None
        found: list[Any] = []
        for name, own in self.inputs.items():
            if name not in given:
                if name not in self.defaults:
                    return None
                found.append(None)
                continue
            value = given[name]
            if type(value) is not np.ndarray:
                value = own.check(value, Budget())
            if name in self._decisive and isinstance(value, np.ndarray) and value.ndim < 2 and value.size <= FEW:
                own.check_fit(value.dtype, value.shape)
                value = value.tolist()
            found.append(value)
        return found

    def _traced(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs of what `_arguments` gives, composed."""
        trace = next((each.trace for each in leaves(arguments) if isinstance(each, TracedArray)), None)
        if trace is None:
            raise NotKnownError("an array")
        tracing = Tracing(trace)
        values: dict[str, Flowing] = {name: Tensor.of(array) for name, array in self.defaults.items()}
        for (name, own), value in zip(self.inputs.items(), arguments, strict=True):
            if value is None and name in self.defaults:
                continue
            values[name] = own.traced(value)
        for i, node in enumerate(self.nodes):
            inputs = [_value(values, node, name) for name in node.inputs]
            found = tracing.run(node, inputs)
            values.update((name, value) for name, value in zip(node.outputs, found, strict=False) if name)
            for name in self._last_use.get(i, ()):
                values.pop(name, None)
        self._check_outputs(values)
        results = tuple([tracing.result(values[name]) for name in self.outputs])
        tracing.check_memory([each for each in leaves(results) if isinstance(each, TracedArray)])
        return results

    def _run(self, given: Mapping[str, Any], log: Callable[[str], object] | None) -> tuple[Any, ...]:
        """The same, composed region by region."""
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
        for i, node in enumerate(self.nodes):
            inputs = [_value(values, node, name) for name in node.inputs]
            found = running.run(node, inputs, not self._decisive.isdisjoint(node.outputs))
            values.update((name, value) for name, value in zip(node.outputs, found, strict=False) if name)
            # Not kept until the next node has run.
            del found, inputs
            for name in self._last_use.get(i, ()):
                values.pop(name, None)
        return self._results(values, foreign, running)

    def _check_outputs(self, values: Mapping[str, Flowing]) -> None:
        missing = next((name for name in self.outputs if name not in values), None)
        if missing is not None:
            raise ModelError(f"no node makes the output {show(missing)}", field=missing)

    def _results(self, values: dict[str, Flowing], foreign: dict[int, Any], running: Running) -> tuple[Any, ...]:
        self._check_outputs(values)
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
        self.check_fit(array.dtype, array.shape)
        return array

    def check_fit(self, dtype: np.dtype[Any], shape: Sizes) -> None:
        """An array of this input's type, rank and sizes.

        Raises:
            ModelError: one differs.
        """
        if dtype != self.dtype:
            message = f"input {show(self.name)} is {dtype}, but the graph has {type_name(self.elem_type)}"
            raise ModelError(message, field=self.name, rule="inputs must have the graph's types")
        if self.sizes is None:
            return
        fits = len(shape) == len(self.sizes) and all(
            not isinstance(size, int) or size == actual for size, actual in zip(self.sizes, shape, strict=True)
        )
        if not fits:
            message = f"input {show(self.name)} has shape {list(shape)}, but the graph has {sizes_text(self.sizes)}"
            raise ModelError(message, field=self.name, rule="inputs must have the graph's sizes")

    def traced(self, value: Any) -> Flowing:
        """A value as the graph sees it under `fuse`: of traced arrays, or of numbers, which were checked before.

        Raises:
            ModelError: a type, a rank or a size differs.
        """
        if value is None:
            return Nothing()
        if isinstance(value, TracedArray):
            self.check_fit(value.element, value.shape)
            return Tensor(value.element, value.shape, value=value.value)
        if self.is_sequence:
            return Tensors(self.traced(each) for each in value)  # type: ignore[misc]  # a sequence has tensors
        elements = value if isinstance(value, list) else [value]
        shape = (len(elements),) if isinstance(value, list) else ()
        return Tensor(self.dtype, shape, known_array(elements, self.dtype, shape))


def _value(values: Mapping[str, Flowing], node: Node, name: str) -> Flowing | None:
    if not name:
        return None
    if name not in values:
        raise node.error(f"nothing makes its input {show(name)} before it runs", name, "nodes come in order")
    return values[name]
