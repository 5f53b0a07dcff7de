"""Nodes of ONNX with their inputs, and what a document's formula says of each element of their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from anydml.referee.texts import default_of

Array = np.ndarray[Any, Any]
Coordinate = tuple[int, ...]
Sizes = tuple[int, ...]


class Node(NamedTuple):
    """A node of ONNX's own domain, and the arrays that it is given.

    Attributes:
        operator: its type.
        opset: the version of the operators that the model imports.
        inputs: its inputs in order; None for an optional one that is omitted.
        attributes: those that are given: integers, numbers, strings, lists of these, or arrays.
        outputs: how many outputs it has.
        constant: numbers of the inputs that are initializers; the others are given when the model runs.
    """

    operator: str
    opset: int
    inputs: tuple[Array | None, ...]
    attributes: Mapping[str, Any] = {}
    outputs: int = 1
    constant: frozenset[int] = frozenset()

    def attribute(self, name: str) -> Any:
        """An attribute's value, or its default in the operator's text; None if it has none."""
        return self.attributes[name] if name in self.attributes else default_of(self.operator, self.opset, name)

    def array(self, number: int) -> Array:
        """An input that is there."""
        value = self.inputs[number]
        assert value is not None
        return value

    def optional(self, number: int) -> Array | None:
        """An input, or None where it is omitted."""
        return self.inputs[number] if number < len(self.inputs) else None

    def integers(self, number: int) -> list[int]:
        """The elements of an input as integers; none where it is omitted."""
        value = self.optional(number)
        return [] if value is None else [int(element) for element in value.reshape(-1)]

    def with_input(self, number: int, value: Array | None) -> Node:
        """The node with another input."""
        return self._replace(inputs=(*self.inputs[:number], value, *self.inputs[number + 1 :]))


class Constant(NamedTuple):
    """An element that comes from no input."""

    value: Any


Source = tuple[int, Coordinate] | Constant
"""Where an element of a result comes from: the number of an input and a coordinate of it, or a constant."""


class Result(NamedTuple):
    """A result by its formula.

    Attributes:
        shape: its sizes.
        dtype: its dtype; object for strings.
        source: where the element at a coordinate comes from.
    """

    shape: Sizes
    dtype: np.dtype[Any]
    source: Callable[[Coordinate], Source]


Formula = Callable[[Node], list[Result]]
"""The results of a node, by the sentences of its operator's text."""


def zero(dtype: np.dtype[Any]) -> Constant:
    """The element that texts call zero: of strings, the empty one."""
    return Constant("" if dtype.hasobject else np.zeros((), dtype)[()])


def evaluate(node: Node, formula: Formula) -> list[Array]:
    """The results of a node, element by element."""
    found = []
    for result in formula(node):
        made = np.empty(result.shape, result.dtype)
        for at in product(*map(range, result.shape)):
            source = result.source(at)
            if isinstance(source, Constant):
                made[at] = source.value
            else:
                value = node.array(source[0])
                if min(source[1], default=0) < 0:
                    raise IndexError(f"{node.operator} reads {source[1]} of an array {value.shape}")
                made[at] = value[source[1]]
        found.append(made)
    return found


def count(shape: Sizes) -> int:
    """The number of elements."""
    return math.prod(shape)


def wrapped(index: int, size: int) -> int:
    """An index, which counts from the end if it is negative."""
    return index + size if index < 0 else index


def place(number: int, shape: Sizes) -> Coordinate:
    """The coordinate of an element by its number in row-major order."""
    found = []
    for size in reversed(shape):
        found.append(number % size)
        number //= size
    return tuple(reversed(found))


def number(at: Coordinate, shape: Sizes) -> int:
    """The number of an element in row-major order."""
    found = 0
    for c, size in zip(at, shape, strict=True):
        found = found * size + c
    return found
