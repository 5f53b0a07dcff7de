"""A graph that is checked and prepared once, and can then be run repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from anydml.errors import BindingError, DescError, FuseError, ModelError
from anydml.files.location import names, show
from anydml.onnx.budget import Budget
from anydml.onnx.checks import check, inline_functions
from anydml.onnx.control import unroll
from anydml.onnx.eager_runs import RunningContext, tensors_in
from anydml.onnx.graph import last_use, size_determining
from anydml.onnx.graph_values import (
    MAX_SHAPE_ELEMENTS,
    EmptyOptional,
    GraphValue,
    Sizes,
    Tensor,
    TensorSequence,
    constant_array,
    host_array,
)
from anydml.onnx.lowering import UnknownElementsError
from anydml.onnx.read import read_nodes
from anydml.onnx.run_node import stored_array, to_graph_value
from anydml.onnx.tensor_protos import (
    TEXT,
    Array,
    numpy_type,
    sequence_type,
    sizes_text,
    tensor_type,
    to_array,
    type_name,
)
from anydml.onnx.tracing import TracingContext
from anydml.tracing.fused import Fused, fuse
from anydml.tracing.structure import leaves
from anydml.tracing.trace import TracedArray


class Program:
    """A runnable model of operators that anydml implements; its functions are inlined.

    Where possible, the model is fused to one program of moves for all input sizes that its shape arithmetic permits
    (see `anydml.fuse`). If its control depends on elements, each run composes it again region by region: a region ends
    where the elements of a result are inspected or overwritten.

    Args:
        model: the model, with its external data loaded; it is not modified.
        is_fused: whether to compose nodes; otherwise each node is a program of its own.

    Attributes:
        inputs: the graph's inputs, in order, including those with a default in `defaults`.
        outputs: names of the graph's outputs, in order.
        programs: the number of programs of the last run.

    Raises:
        ModelError: the model is not valid, or has an operator, type or kind of value that anydml does not support.
    """

    def __init__(self, model: ModelProto, is_fused: bool = True) -> None:
        check(model)
        model = unroll(inline_functions(model))
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
        has_text = any(value.dtype.hasobject for value in self.inputs.values())
        self._moved: Fused[..., Any] | None = fuse(self._trace) if is_fused and not has_text else None
        self._last_use = last_use([(node.inputs, node.outputs) for node in self.nodes], self.outputs)
        self._decisive = size_determining(self.nodes)

    def run(self, arrays: Mapping[str, Any], log: Callable[[str], object] | None = None) -> tuple[Any, ...]:
        """Run the graph.

        Args:
            arrays: arrays by name, or lists of arrays for sequences; inputs with a default may be omitted.
            log: called with the nodes and moves of each program; implies composing region by region.

        Returns:
            The outputs in order, each a new array or a list of new arrays.

        Raises:
            ModelError: an input is missing, unknown, or of the wrong type or shape; a node refuses its inputs; or the
                live values do not fit into memory.
        """
        moved = self._moved
        arguments = None if moved is None or log is not None else self._arguments(arrays)
        if moved is not None and arguments is not None:
            try:
                results: tuple[Any, ...] = moved(*arguments)
            except (FuseError, UnknownElementsError):
                # Control depends on elements for any input: do not try again.
                self._moved = None
            except (IndexError, DescError, BindingError, MemoryError):
                # Run node by node to find the node that refuses.
                pass
            else:
                self.programs = 1
                return results
        return self._run(arrays, log)

    def _arguments(self, arrays: Mapping[str, Any]) -> list[Any] | None:
        """Return the arguments for `_trace`, with None for omitted inputs; None if names are wrong.

        Small inputs that may determine sizes are passed as Python numbers, which `fuse` leaves open.
        """
        if not arrays.keys() <= self.inputs.keys():
            return None
        arguments: list[Any] = []
        for name, graph_input in self.inputs.items():
            if name not in arrays:
                if name not in self.defaults:
                    return None
                arguments.append(None)
                continue
            value = arrays[name]
            if type(value) is not np.ndarray:
                value = graph_input.check(value, Budget())
            if (
                name in self._decisive
                and isinstance(value, np.ndarray)
                and value.ndim < 2
                and value.size <= MAX_SHAPE_ELEMENTS
            ):
                graph_input.check_fit(value.dtype, value.shape)
                value = value.tolist()
            arguments.append(value)
        return arguments

    def _trace(self, *arguments: Any) -> tuple[Any, ...]:
        """Trace the graph on the arguments of `_arguments`; the function that is fused."""
        trace = next((leaf.trace for leaf in leaves(arguments) if isinstance(leaf, TracedArray)), None)
        if trace is None:
            raise UnknownElementsError("an array")
        tracing = TracingContext(trace)
        values: dict[str, GraphValue] = {name: Tensor.of(array) for name, array in self.defaults.items()}
        for (name, graph_input), value in zip(self.inputs.items(), arguments, strict=True):
            if value is None and name in self.defaults:
                continue
            values[name] = graph_input.traced(value)
        self._evaluate(values, tracing.run)
        results = tuple([tracing.traced_output(values[name]) for name in self.outputs])
        tracing.check_memory([leaf for leaf in leaves(results) if isinstance(leaf, TracedArray)])
        return results

    def _run(self, arrays: Mapping[str, Any], log: Callable[[str], object] | None) -> tuple[Any, ...]:
        """Run the graph, composing it region by region."""
        unknown = next((name for name in arrays if name not in self.inputs), None)
        if unknown is not None:
            raise ModelError(f"there is no input {show(unknown)}; the graph has {names(self.inputs)}", field=unknown)
        missing = next((name for name in self.inputs if name not in arrays and name not in self.defaults), None)
        if missing is not None:
            rule = f"every input must have a value, on the command line by --input {missing}=FILE.npy"
            raise ModelError(f"input {show(missing)} is not given", field=missing, rule=rule)
        budget = Budget()
        values: dict[str, GraphValue] = {name: Tensor.of(array) for name, array in self.defaults.items()}
        for name, argument in arrays.items():
            value = to_graph_value(self.inputs[name].check(argument, budget))
            # An empty sequence has the graph's type.
            if isinstance(value, TensorSequence) and not isinstance(value, EmptyOptional):
                value = value.typed(self.inputs[name].dtype)
            values[name] = value
        # Keep the arrays alive, so that no other array gets the same id.
        foreign = {id(array): array for array in (tensor.array for tensor in tensors_in([*values.values()]))}
        running = RunningContext(budget, self._is_fused, log)
        decisive = self._decisive
        self._evaluate(values, lambda node, inputs: running.run(node, inputs, not decisive.isdisjoint(node.outputs)))
        return self._results(values, foreign, running)

    def _evaluate(self, values: dict[str, GraphValue], run: Callable[..., Sequence[GraphValue]]) -> None:
        """Add all values of the graph to its inputs and defaults, in place, and free each after its last use."""
        for i, node in enumerate(self.nodes):
            results = run(node, node.inputs_in(values))
            values.update((name, value) for name, value in zip(node.outputs, results, strict=False) if name)
            # Free the values before the next node runs.
            del results
            for name in self._last_use.get(i, ()):
                values.pop(name, None)
        missing = next((name for name in self.outputs if name not in values), None)
        if missing is not None:
            raise ModelError(f"no node makes the output {show(missing)}", field=missing)

    def _results(
        self, values: dict[str, GraphValue], foreign: dict[int, Any], running: RunningContext
    ) -> tuple[Any, ...]:
        for name in values.keys() - {*self.outputs}:
            del values[name]
        running.flush()
        self.programs = running.programs
        results: list[Any] = []
        for name in self.outputs:
            value = values[name]
            copies = [_own_array(name, tensor, foreign, running.budget) for tensor in tensors_in([value])]
            nothing = None if isinstance(value, EmptyOptional) else copies
            results.append(nothing if isinstance(value, TensorSequence) else copies[0])
        return tuple(results)


def _own_array(name: str, tensor: Tensor, foreign: dict[int, Any], budget: Budget) -> Array:
    """Return a result as a new array; copy it if it aliases an input or another result, as Identity's does."""
    array = stored_array(tensor)
    if id(array) in foreign or not array.flags.writeable or not array.flags.owndata:
        budget.ask(f"output {show(name)}", "a separate copy", array.nbytes)
        array = array.copy()
        budget.hold(array)
    foreign[id(array)] = array
    return array


def _defaults(graph: GraphProto) -> dict[str, Array]:
    """Return the arrays of the initializers, by name."""
    budget = Budget()
    defaults = {}
    for tensor in graph.initializer:
        defaults[tensor.name] = array = to_array(tensor, budget)
        budget.hold(array)
    return defaults


class Input:
    """An input of a graph, with its type and sizes.

    Raises:
        ModelError: the input is not a tensor, sequence or optional, or onnx does not know its element type.
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
        """Convert a value to an array, a list of arrays for a sequence, or None for an empty optional.

        Raises:
            ModelError: its type, rank or a size differs from the graph, or there is not enough memory.
        """
        if value is None and self.is_optional:
            return None
        if self.is_sequence:
            if not isinstance(value, (list, tuple)):
                message = f"input {show(self.name)} is a {type(value).__name__}, but the graph has a sequence"
                raise ModelError(message, field=self.name, rule="a sequence must be a list of arrays")
            return [self._check(item, budget) for item in value]
        return self._check(value, budget)

    def _check(self, value: Any, budget: Budget) -> Array:
        array = host_array(f"input {show(self.name)}", value)
        if self.elem_type == TensorProto.STRING and array.dtype.kind in "UT":
            size = array.size * (8 + TEXT) + array.nbytes
            budget.ask(f"input {show(self.name)}", "reading it", size)
            array = array.astype(object)
        self.check_fit(array.dtype, array.shape)
        return array

    def check_fit(self, dtype: np.dtype[Any], shape: Sizes) -> None:
        """Check dtype, rank and sizes of an array.

        Raises:
            ModelError: an array differs from the graph.
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

    def traced(self, value: Any) -> GraphValue:
        """Convert an argument of `fuse`: traced arrays, or numbers that were checked before.

        Raises:
            ModelError: a type, rank or size differs from the graph.
        """
        if value is None:
            return EmptyOptional()
        if isinstance(value, TracedArray):
            self.check_fit(value.element, value.shape)
            return Tensor(value.element, value.shape, value=value.value)
        if self.is_sequence:
            tensors = TensorSequence(self.traced(item) for item in value)  # type: ignore[misc]  # it has no sequences
            return tensors.typed(self.dtype)
        elements = value if isinstance(value, list) else [value]
        shape = (len(elements),) if isinstance(value, list) else ()
        return Tensor(self.dtype, shape, constant_array(elements, self.dtype, shape))
