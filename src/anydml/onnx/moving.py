"""What nodes ask for while they say what moves: the same for graphs that run and for those that are only looked at."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.errors import BindingError, DescError
from anydml.moves.compose import Composer
from anydml.moves.move import Access, Fill, Move
from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.onnx.graph import Node
from anydml.onnx.tensors import check_rank
from anydml.onnx.values import INT64, Array, Flowing, Sizes, Tensor
from anydml.tracing.sizes import is_open

MOST_FACTORS = 4096
"""Factors of the pieces that a node composes; where there are more, its inputs are stored before."""

MOST_BYTES = 2**62
"""Of a tensor: what is more has no addresses."""

POSITION = np.dtype(np.int64)
"""Strings do not move, their positions do: each is a number, by which it is found at the end."""


class NotKnownError(Exception):
    """The sizes of a result, or the elements that decide them, are known only when the graph runs."""


Write = Callable[[int, Sizes], Sequence[Move]]
"""What is written over a stored value: moves to an operand of this number, with these byte strides."""


class Moving(abc.ABC):
    """How nodes get values, and what they make of them.

    A node first asks for the elements that it has to look at (`known`, `stored`), then for `values`, and then composes
    them with `composer`.
    """

    runs: bool
    """Whether the graph runs; otherwise only sizes and types matter, and a value need not say where elements are."""

    def results(self, node: Node, inputs: Sequence[Flowing | None]) -> tuple[Flowing, ...]:
        """What a node makes of its inputs; None stands for one that is not given.

        Raises:
            ModelError: the inputs do not fit the operator.
            NotKnownError: elements that are known only when the graph runs decide something.
        """
        try:
            return tuple(node.entry.run(node, self, inputs))
        except (DescError, BindingError, IndexError, UnicodeDecodeError) as error:
            raise node.reworded(error) from None

    @abc.abstractmethod
    def ask(self, node: Node, size: int) -> None:
        """Refuse indices of so many bytes, which a node is about to make, where there is no memory for them.

        Raises:
            ModelError: there is none.
        """

    @property
    @abc.abstractmethod
    def composer(self) -> Composer:
        """Composes values; asked for after `values`."""

    def known(self, node: Node, tensor: Tensor, name: str) -> Array:
        """The elements of an input that decides sizes.

        Raises:
            ModelError, NotKnownError: they are known only when the graph runs.
        """
        if tensor.array is None:
            raise NotKnownError(name)
        return tensor.array

    @abc.abstractmethod
    def stored(self, *tensors: Tensor) -> bool:
        """Have the elements of inputs, which decide no sizes, in `tensor.array`; whether there are any.

        Raises:
            NotKnownError: they are known only when the graph runs.
        """

    @abc.abstractmethod
    def look(self, *tensors: Tensor) -> bool:
        """As `stored`, but if moves can read the elements, and refuse indices, they need not be there."""

    def direct(self, tensor: Tensor) -> None:  # noqa: B027 -- most have nothing to do
        """Have a tensor's elements where no index has to be looked up for them: lookups in lookups are slow."""

    @abc.abstractmethod
    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """What inputs are made of. Asked for once for each node, for all inputs that are composed.

        Args:
            tensors: the inputs.
            times: how often each is used, about.
        """

    @abc.abstractmethod
    def source(self, array: Array) -> Value:
        """Elements that a node has made, to be read by moves; asked for after `values`."""

    @abc.abstractmethod
    def pattern(self, element: Array) -> bytes:
        """The bytes of an array of one element, as moves see it; asked for after `values`."""

    @abc.abstractmethod
    def _kept(self, node: Node, value: Value, dtype: np.dtype[Any], write: Write | None) -> Tensor:
        """A result that is described."""

    @abc.abstractmethod
    def computed(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], more: int = 0
    ) -> Tensor:
        """A result that NumPy makes.

        Args:
            node: the node.
            shape: the result's.
            dtype: the result's.
            make: makes it.
            more: bytes that making it takes beside it.

        Raises:
            ModelError: it does not fit into memory.
        """

    def counted(
        self, node: Node, start: Any, count: int, step: Any, dtype: np.dtype[Any], make: Callable[[], Array]
    ) -> Tensor:
        """A result whose elements are ``start + step·k`` for each k below a count; `make` makes them.

        Raises:
            ModelError: it does not fit into memory.
        """
        return self.computed(node, (count,), dtype, make, 24 * count)

    def constant(self, node: Node, tensor: Tensor, make: Callable[[Budget], Array], cost: int) -> Tensor:
        """A result that is part of the model.

        Args:
            node: the node.
            tensor: its type and sizes.
            make: reads it, and asks for the memory that it takes.
            cost: bytes that reading it takes, beside what `make` asks for.
        """
        budget = Budget()
        budget.ask(node.label, "reading its value", cost)
        return self.given(node, make(budget))

    def given(self, node: Node, array: Array) -> Tensor:
        """A result that follows from sizes or attributes alone: it is small, of numbers, INT64 where they are open."""
        dtype = INT64 if array.dtype.hasobject and is_open(array.reshape(-1)) else array.dtype
        return Tensor(dtype, array.shape, array, maker=node.label)

    def access(self, value: Value) -> Access | Fill:
        """Where the elements of a value are that is stored, with a stride for each of its dimensions."""
        (piece,) = value.pieces
        return piece.source

    def moved(self, node: Node, value: Value, dtype: np.dtype[Any]) -> Tensor:
        """A result that is made by moves alone.

        Raises:
            ModelError: it has too many dimensions, or more bytes than there are addresses.
        """
        return self._kept(node, checked(node, value), dtype, None)

    def overwritten(self, node: Node, value: Value, dtype: np.dtype[Any], write: Write) -> Tensor:
        """A result some of whose elements are written a second time.

        Raises:
            ModelError: as `moved`.
        """
        return self._kept(node, checked(node, value), dtype, write)


def checked(node: Node, value: Value) -> Value:
    """A value that can be a tensor.

    Raises:
        ModelError: it has too many dimensions, or more bytes than there are addresses.
    """
    check_rank(f"{node.label}: the result", len(value.sizes))
    check_bytes(node, value.sizes, value.element_size)
    return value


def check_bytes(node: Node, shape: Sizes, itemsize: int) -> None:
    """A shape that can be a tensor's.

    Raises:
        ModelError: it has more bytes than there are addresses.
    """
    if math.prod(shape) * max(1, itemsize) > MOST_BYTES:
        rule = f"a tensor must have at most {MOST_BYTES} B"
        raise node.error(f"the result of shape {list(shape)} is too large", None, rule)


def packed(shape: Sequence[int], itemsize: int) -> Sizes:
    """Byte strides of an array without gaps."""
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class Looking(Moving):
    """Sizes and types of a graph that does not run; elements are known where they are few."""

    runs = False

    def __init__(self) -> None:
        self._composer = Composer("sizes")

    def ask(self, node: Node, size: int) -> None:
        """As `Moving.ask`: what is already there is no longer available."""
        Budget().ask(node.label, "looking at it", size)

    @property
    def composer(self) -> Composer:
        """One that is thrown away."""
        return self._composer

    def stored(self, *tensors: Tensor) -> bool:
        """They are not."""
        return False

    def look(self, *tensors: Tensor) -> bool:
        """They are not."""
        return False

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """Tensors without memory."""
        self._composer = Composer("sizes")
        return [self._stored(tensor.shape, tensor.dtype) for tensor in tensors]

    def source(self, array: Array) -> Value:
        """As if it were there."""
        return self._stored(array.shape, array.dtype)

    def pattern(self, element: Array) -> bytes:
        """As many bytes."""
        return bytes(moved_type(element.dtype).itemsize)

    def _stored(self, shape: Sizes, dtype: np.dtype[Any]) -> Value:
        size = moved_type(dtype).itemsize
        return self._composer.input("it", shape, packed(shape, size), size)

    def _kept(self, node: Node, value: Value, dtype: np.dtype[Any], write: Write | None) -> Tensor:
        return Tensor(dtype, value.sizes)

    def computed(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], more: int = 0
    ) -> Tensor:
        """Its shape and type."""
        return Tensor(dtype, shape)

    def constant(self, node: Node, tensor: Tensor, make: Callable[[Budget], Array], cost: int) -> Tensor:
        """It is not read."""
        return tensor

    def given(self, node: Node, array: Array) -> Tensor:
        """As it is."""
        return Tensor.of(array)


def moved_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of what moves in the place of elements of `dtype`."""
    return POSITION if dtype.hasobject else dtype
