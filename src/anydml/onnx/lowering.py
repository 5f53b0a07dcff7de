"""The interface between nodes and the engines that lower them: to run a graph, trace it, or infer its sizes."""

from __future__ import annotations

import abc
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.errors import BindingError, DescError, FuseError
from anydml.moves.composer import Composer
from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import INT64, Array, GraphValue, Reservation, Sizes, Tensor
from anydml.onnx.tensor_protos import check_rank
from anydml.tensor import Layout
from anydml.tracing.open_sizes import is_open
from anydml.tracing.trace import Trace, TracedArray

MAX_FACTORS = 4096
"""Largest number of factors that a node composes; with more, its inputs are stored first."""

MAX_WORK = 16 * MAX_FACTORS
"""Largest number of factors that the nodes of a region, or of a graph that is traced as one, compose."""

MAX_BYTES = 2**62
"""Largest size of a tensor in bytes, so that it can be addressed."""

POSITION = np.dtype(np.int64)
"""Strings are moved by their positions, INT64 numbers that are replaced by the strings at the end."""


class UnknownElementsError(Exception):
    """The sizes of a result, or the elements that decide them, are known only when the graph runs."""


class NodeTrace(Trace):
    """The trace of a context: its constants and fills are those of the context."""

    def __init__(self, ctx: LoweringContext, composer: Composer) -> None:
        super().__init__("onnx", TracedArray, None, composer)
        # References are weak, so that the arrays of a run are released at the end of the run.
        self._ctx = weakref.proxy(ctx)

    def pattern(self, element: Array) -> bytes:
        """See `Trace.pattern`; the zero of strings is the empty one."""
        is_zero = element.dtype.hasobject and not isinstance(element.item(), str)
        pattern_bytes: bytes = self._ctx.pattern(np.array("", object) if is_zero else element)
        return pattern_bytes

    def _constant(self, array: Any) -> TracedArray:
        constant: TracedArray = self._ctx.constant(array)
        return constant


class LoweringContext(abc.ABC):
    """Provides nodes with their inputs as traced arrays, and records their results.

    A node first requests the elements that it has to inspect (`known_elements`, `fetch`, `fetch_optional`), then
    `arrays`, which it composes by the verbs and words of `anydml.tracing`.

    Args:
        composer: composes values.
        budget: checked before each allocation.
        trace: the trace of the arrays; by default, a new one.
    """

    runs = True
    """Whether the graph runs; otherwise only sizes and types matter, and values may have no pieces."""

    REWORDED: tuple[type[Exception], ...] = (DescError, BindingError, FuseError, IndexError, UnicodeDecodeError)
    """Errors of anydml's functions that become errors of the node."""

    def __init__(self, composer: Composer, budget: Budget | None = None, trace: Trace | None = None) -> None:
        self.trace = trace or NodeTrace(self, composer)
        self._sources: dict[int, tuple[Tensor, Value]] = {}
        self.budget = budget or Budget()

    @property
    def composer(self) -> Composer:
        """The composer of values; must be read after `arrays` is called."""
        return self.trace.composer

    @composer.setter
    def composer(self, composer: Composer) -> None:
        self.trace.composer = composer
        self._sources = {}

    def lower(self, node: Node, inputs: Sequence[GraphValue | None]) -> tuple[GraphValue, ...]:
        """Lower a node; return its results.

        Args:
            node: the node.
            inputs: its inputs in order, None for omitted ones.

        Raises:
            ModelError: the node refuses its inputs.
            UnknownElementsError: a size or check depends on elements that are only known at run time.
        """
        try:
            results = node.entry.run(node, self, *node.checked(inputs))
            return tuple(results) if isinstance(results, list) else (results,)
        except self.REWORDED as error:
            raise node.as_node_error(error) from None

    def require_memory(self, node: Node, size: int) -> None:
        """Check that there is memory for `size` bytes of indices, which a node is about to create.

        Raises:
            ModelError: there is not enough memory.
        """
        self.budget.ask(node.label, "its indices", int(size))

    def known_elements(self, node: Node, tensor: Tensor, name: str) -> Array:
        """Return the elements of an input that determines sizes.

        Raises:
            ModelError, UnknownElementsError: the elements are only known at run time.
        """
        if tensor.array is None:
            raise UnknownElementsError(name)
        return tensor.array

    @abc.abstractmethod
    def fetch(self, *tensors: Tensor) -> bool:
        """Fetch the elements of inputs that determine no sizes into `tensor.array`; return whether that was possible.

        Raises:
            UnknownElementsError: the elements are only known at run time.
        """

    def fetch_optional(self, *tensors: Tensor) -> bool:
        """Fetch elements that moves could also read and check; return whether the elements were fetched."""
        return self.fetch(*tensors)

    def elements(self, tensor: Tensor) -> Any:
        """Return the elements of an input that determines no sizes; None if the graph does not run.

        Raises:
            UnknownElementsError: the elements are only known at run time.
        """
        return tensor.array if self.fetch(tensor) else None

    def resolve_lookups(self, tensor: Tensor) -> None:  # noqa: B027 -- optional for subclasses
        """Store a tensor whose elements are read through indices, because nested lookups are slow."""

    def arrays(self, *tensors: Tensor, times: int = 1) -> list[TracedArray]:
        """Return inputs as traced arrays; called once per node, with all inputs that the node composes.

        Args:
            tensors: the inputs.
            times: approximate number of uses of each array.
        """
        values, trace = self.values(*tensors, times=times), self.trace
        return [trace.new_array(value, tensor.dtype) for value, tensor in zip(values, tensors, strict=True)]

    def array(self, tensor: Tensor, times: int = 1) -> TracedArray:
        """Return the only input that a node composes (see `arrays`)."""
        return self.arrays(tensor, times=times)[0]

    def constant(self, array: Array) -> TracedArray:
        """Return an array that the node has created as a traced one; must be called after `arrays`."""
        return self.trace.new_array(self.source(array), array.dtype)

    def filled(self, shape: Sizes, element: Array) -> TracedArray:
        """Return a traced array filled with the element of a one-element array; must be called after `arrays`."""
        return self.trace.new_array(Value.of_fill(shape, self.pattern(element)), element.dtype)

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """Return the values of inputs (see `arrays`)."""
        return [*map(self._value_of, tensors)]

    def _value_of(self, tensor: Tensor) -> Value:
        """Return the value of a tensor; a stored tensor becomes an input of the composer, once."""
        if tensor.value is not None:
            return tensor.value
        if id(tensor) not in self._sources:
            assert tensor.array is not None, "it is stored"
            self._sources[id(tensor)] = tensor, self.source(tensor.array.astype(tensor.dtype, copy=False))
        return self._sources[id(tensor)][1]

    @abc.abstractmethod
    def source(self, array: Array) -> Value:
        """Return a value that reads an array."""

    @abc.abstractmethod
    def pattern(self, element: Array) -> bytes:
        """Return the bytes of a one-element array, for fills."""

    @abc.abstractmethod
    def _record_result(self, node: Node, value: Value, dtype: np.dtype[Any]) -> Tensor:
        """Record a result that is composed of moves."""

    def computed_result(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], working_bytes: int = 0
    ) -> Tensor:
        """Record a result that NumPy computes.

        Args:
            node: the node.
            shape: shape of the result.
            dtype: dtype of the result.
            make: computes it.
            working_bytes: temporary memory of `make` in bytes.

        Raises:
            ModelError: the result does not fit into memory.
        """
        tensor = Tensor(dtype, shape, maker=node.label)
        self._require_result(tensor, working_bytes)
        tensor.array = make()
        tensor.reservation = Reservation(self.budget, tensor.array)
        return tensor

    def _require_result(self, tensor: Tensor, working_bytes: int) -> None:
        """Check that there is memory for a result, and for `working_bytes` bytes."""
        size = math.prod(map(int, tensor.shape)) * max(1, tensor.dtype.itemsize)
        self.budget.ask(tensor.maker, f"the result of shape {list(tensor.shape)}", size + working_bytes)

    def counted_result(
        self, node: Node, start: Any, count: int, step: Any, dtype: np.dtype[Any], make: Callable[[], Array]
    ) -> Tensor:
        """Record a result with the elements ``start + step·k`` for k in 0 … count − 1, which `make` computes.

        Raises:
            ModelError: the result does not fit into memory.
        """
        return self.computed_result(node, (count,), dtype, make, 24 * count)

    def constant_result(self, node: Node, tensor: Tensor, make: Callable[[Budget], Array], cost: int) -> Tensor:
        """Record a result that is stored in the model.

        Args:
            node: the node.
            tensor: the type and sizes of the result.
            make: reads it; checks the memory of the array against the budget.
            cost: further memory in bytes that reading takes.
        """
        self.budget.ask(node.label, "reading its value", cost)
        return self.known_result(node, make(self.budget))

    def known_result(self, node: Node, array: Array) -> Tensor:
        """Record a small numeric result that depends on sizes or attributes only; INT64 if it contains open sizes."""
        dtype = INT64 if array.dtype.hasobject and is_open(array.reshape(-1)) else array.dtype
        return Tensor(dtype, array.shape, array, maker=node.label, reservation=Reservation(self.budget, array))

    def result(self, node: Node, array: TracedArray) -> Tensor:
        """Record a result that is composed of moves.

        Raises:
            ModelError: the result has too many dimensions or bytes.
        """
        check_rank(f"{node.label}: the result", array.ndim)
        check_bytes(node, array.shape, array.itemsize)
        return self._record_result(node, array.value, array.element)

    def empty_result(self, node: Node, shape: Sizes, dtype: np.dtype[Any]) -> Tensor:
        """Record a result that has no elements, or whose elements do not matter, as the graph does not run.

        Raises:
            ModelError: the result has too many dimensions or bytes.
        """
        return self.result(node, self.trace.new_array(Value(shape, dtype.itemsize, ()), dtype))


def check_bytes(node: Node, shape: Sizes, itemsize: int) -> None:
    """Check that a tensor of a shape can be addressed.

    Raises:
        ModelError: the result has more than `MAX_BYTES` bytes.
    """
    if math.prod(shape) * max(1, itemsize) > MAX_BYTES:
        rule = f"a tensor must have at most {MAX_BYTES} B"
        raise node.error(f"the result of shape {list(shape)} is too large", None, rule)


def moved_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that is moved for elements of `dtype`: positions for strings."""
    return POSITION if dtype.hasobject else dtype


class ShapeContext(LoweringContext):
    """Infers sizes and types without running a graph; only few elements are known."""

    runs = False

    def __init__(self, budget: Budget | None = None) -> None:
        super().__init__(Composer("sizes"), budget)

    def fetch(self, *tensors: Tensor) -> bool:
        """Return False: nothing is fetched."""
        return False

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """Return values without memory."""
        self.composer = Composer("sizes")
        return [self._input(tensor.shape, tensor.dtype) for tensor in tensors]

    def source(self, array: Array) -> Value:
        """Return a value without memory."""
        return self._input(array.shape, array.dtype)

    def pattern(self, element: Array) -> bytes:
        """Return zeros of the element's size."""
        return bytes(moved_type(element.dtype).itemsize)

    def _input(self, shape: Sizes, dtype: np.dtype[Any]) -> Value:
        layout = Layout.packed(shape, moved_type(dtype).itemsize)
        return self.composer.input("it", shape, layout.strides, layout.element_size)

    def _record_result(self, node: Node, value: Value, dtype: np.dtype[Any]) -> Tensor:
        return Tensor(dtype, value.sizes)

    def computed_result(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], working_bytes: int = 0
    ) -> Tensor:
        """Return a tensor of this shape and type, without computing it."""
        return Tensor(dtype, shape)

    def constant_result(self, node: Node, tensor: Tensor, make: Callable[[Budget], Array], cost: int) -> Tensor:
        """Return the tensor without reading it."""
        return tensor
