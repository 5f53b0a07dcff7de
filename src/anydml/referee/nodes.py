"""Nodes of ONNX with their inputs, and formulas of their results' elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from anydml.referee.schema_texts import default_of

Array = np.ndarray[Any, Any]
Coordinate = tuple[int, ...]
Sizes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TensorList:
    """A sequence of tensors of one type.

    Attributes:
        dtype: their type.
        tensors: the tensors.
    """

    dtype: np.dtype[Any]
    tensors: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class OptionalValue:
    """An optional value.

    Attributes:
        dtype: the type of elements.
        is_sequence: whether the element is a sequence.
        element: the element; None if the value is empty.
    """

    dtype: np.dtype[Any]
    is_sequence: bool
    element: Array | TensorList | None


Value: TypeAlias = Array | TensorList | OptionalValue
"""An input or output of a node."""


def tensors_of(value: Value | None) -> tuple[Array, ...]:
    """Return the tensors of a value, in order."""
    if isinstance(value, OptionalValue):
        value = value.element
    return () if value is None else value.tensors if isinstance(value, TensorList) else (value,)


def with_tensors(value: Value | None, tensors: tuple[Array, ...]) -> Any:
    """Return a value of the same kind with other tensors."""
    match value:
        case None:
            return None
        case OptionalValue():
            return OptionalValue(value.dtype, value.is_sequence, with_tensors(value.element, tensors))
        case TensorList():
            return TensorList(value.dtype, tensors)
    return tensors[0]


class Node(NamedTuple):
    """A node of ONNX's own domain, and its input arrays.

    Attributes:
        operator: the operator's type.
        opset: the version of the operators that the model imports.
        inputs: the inputs in order; None for an optional one that is omitted.
        attributes: the attributes: integers, numbers, strings, lists of these, arrays, or types.
        outputs: the number of outputs.
        constant: numbers of the inputs that are initializers; the others are passed when the model runs.
    """

    operator: str
    opset: int
    inputs: tuple[Value | None, ...]
    attributes: Mapping[str, Any] = {}
    outputs: int = 1
    constant: frozenset[int] = frozenset()

    @property
    def run_inputs(self) -> list[Value]:
        """Return the inputs that are passed when the model runs."""
        return [value for k, value in enumerate(self.inputs) if value is not None and k not in self.constant]

    def attribute(self, name: str) -> Any:
        """Return an attribute's value, or its default in the operator's text; None if it has none."""
        return self.attributes[name] if name in self.attributes else default_of(self.operator, self.opset, name)

    def array(self, input_number: int) -> Array:
        """Return an input that is a tensor."""
        value = self.inputs[input_number]
        assert isinstance(value, np.ndarray)
        return value

    def optional(self, input_number: int) -> Array | None:
        """Return an input that is a tensor; None if it is omitted."""
        return (
            self.array(input_number)
            if input_number < len(self.inputs) and self.inputs[input_number] is not None
            else None
        )

    def tensors(self, input_number: int) -> tuple[Array, ...]:
        """Return the tensors of an input."""
        return tensors_of(self.inputs[input_number])

    def integers(self, input_number: int) -> list[int]:
        """Return the elements of an input as integers; none if it is omitted."""
        value = self.optional(input_number)
        return [] if value is None else [int(element) for element in value.reshape(-1)]

    def with_input(self, input_number: int, value: Value | None) -> Node:
        """Return the node with another input."""
        return self._replace(inputs=(*self.inputs[:input_number], value, *self.inputs[input_number + 1 :]))


class Constant(NamedTuple):
    """An element that comes from no input."""

    value: Any


Source = tuple[int, Coordinate] | tuple[int, Coordinate, int] | Constant
"""The origin of an element of a result: a constant, or the number of an input and a coordinate in it; for a sequence,
also the number of the tensor."""


class Result(NamedTuple):
    """A result by its formula.

    Attributes:
        shape: the sizes.
        dtype: the dtype; object for strings.
        source: returns the origin of the element at a coordinate.
    """

    shape: Sizes
    dtype: np.dtype[Any]
    source: Callable[[Coordinate], Source]


class ResultList(NamedTuple):
    """A result that is a sequence.

    Attributes:
        dtype: the type of its tensors.
        results: the tensors.
    """

    dtype: np.dtype[Any]
    results: tuple[Result, ...]


class OptionalResult(NamedTuple):
    """A result that is an optional value.

    Attributes:
        dtype: the type of elements.
        is_sequence: whether the element is a sequence.
        result: the element; None if the result is empty.
    """

    dtype: np.dtype[Any]
    is_sequence: bool
    result: Result | ResultList | None


AnyResult: TypeAlias = Result | ResultList | OptionalResult

Formula = Callable[[Node], Sequence[AnyResult]]
"""The results of a node, by the sentences of its operator's text."""


def zero(dtype: np.dtype[Any]) -> Constant:
    """Return the element that texts call zero: for strings, the empty one."""
    return Constant("" if dtype.hasobject else np.zeros((), dtype)[()])


def evaluate(node: Node, formula: Formula) -> list[Value]:
    """Return the results of a node, element by element."""
    return [_evaluate(node, result) for result in formula(node)]


def _evaluate(node: Node, result: AnyResult) -> Value:
    match result:
        case Result():
            return _tensor(node, result)
        case ResultList():
            return TensorList(result.dtype, tuple(_tensor(node, array) for array in result.results))
    element: Any = None if result.result is None else _evaluate(node, result.result)
    return OptionalValue(result.dtype, result.is_sequence, element)


def _tensor(node: Node, result: Result) -> Array:
    elements = np.empty(result.shape, result.dtype)
    for at in product(*map(range, result.shape)):
        source = result.source(at)
        if isinstance(source, Constant):
            elements[at] = source.value
        else:
            input_number, coordinate, *within = source
            value = node.tensors(input_number)[within[0]] if within else node.array(input_number)
            if min(coordinate, default=0) < 0:
                raise IndexError(f"{node.operator} reads {coordinate} of an array {value.shape}")
            elements[at] = value[coordinate]
    return elements


def count(shape: Sizes) -> int:
    """Return the number of elements."""
    return math.prod(shape)


def wrap_index(index: int, size: int) -> int:
    """Return an index as a coordinate; negative ones count from the end."""
    return index + size if index < 0 else index


def coordinate_of(index: int, shape: Sizes) -> Coordinate:
    """Return the coordinate of an element by its index in row-major order."""
    coordinate = []
    for size in reversed(shape):
        coordinate.append(index % size)
        index //= size
    return tuple(reversed(coordinate))


def row_major_index(at: Coordinate, shape: Sizes) -> int:
    """Return the index of an element in row-major order."""
    index = 0
    for c, size in zip(at, shape, strict=True):
        index = index * size + c
    return index
