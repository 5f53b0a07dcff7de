"""Shape arithmetic: nodes on few elements that are known, run on Python's integers, among them open sizes.

Exporters write sizes as graphs, of Shape, Gather, Mul, Concat … While a graph is traced such sizes are open (see
`anydml.tracing.sizes`): no array of machine integers holds them, an array of objects does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from anydml.moves.compose import Composer
from anydml.moves.move import Access, Fill, Lookup, Move
from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.moving import Moving, NotKnownError, Write, packed
from anydml.onnx.values import FEW, Array, Flowing, Sizes, Tensor, known_array
from anydml.tracing.sizes import is_open

_RESULT = 1 << 40
"""The operand that stands for a result over which something is written."""


class Folding(Moving):
    """Nodes whose inputs are known, evaluated element by element."""

    runs = True

    def __init__(self) -> None:
        self._composer = Composer("sizes")
        self._elements: dict[int, list[Any]] = {}

    def ask(self, node: Node, size: int) -> None:
        """As `Moving.ask`: there are few."""

    @property
    def composer(self) -> Composer:
        """As `Moving.composer`."""
        return self._composer

    def stored(self, *tensors: Tensor) -> bool:
        """They are."""
        return True

    def look(self, *tensors: Tensor) -> bool:
        """They are."""
        return True

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """As `Moving.values`."""
        return [self._value(self.known_of(tensor), tensor.dtype) for tensor in tensors]

    def source(self, array: Array) -> Value:
        """As `Moving.source`."""
        return self._value(array, array.dtype)

    @staticmethod
    def known_of(tensor: Tensor) -> Array:
        """The elements of a tensor.

        Raises:
            NotKnownError: there are none.
        """
        if tensor.array is None:
            raise NotKnownError(tensor.maker)
        return tensor.array

    def _value(self, array: Array, dtype: np.dtype[Any]) -> Value:
        value = self._composer.input("known", array.shape, packed(array.shape, dtype.itemsize), dtype.itemsize)
        self._elements[len(self._elements)] = array.reshape(-1).tolist()
        return value

    def pattern(self, element: Array) -> bytes:
        """As `Moving.pattern`."""
        return element.tobytes()

    def _kept(self, node: Node, value: Value, dtype: np.dtype[Any], write: Write | None) -> Tensor:
        count = math.prod(value.sizes)
        if is_open(value.sizes) or count > FEW:
            raise NotKnownError(node.label)
        elements = [None] * count
        strides = packed(value.sizes, value.element_size)
        moves = [*value.moves(_RESULT, 0, strides), *(write(_RESULT, strides) if write else ())]
        for move in moves:
            for to, number in self._moved(move, dtype):
                elements[to] = number
        return Tensor(dtype, value.sizes, known_array(elements, dtype, value.sizes), maker=node.label)

    def _moved(self, move: Move, dtype: np.dtype[Any]) -> Iterator[tuple[int, Any]]:
        """What a move brings to which places of the result."""
        for at in product(*map(range, move.sizes)):
            to = self._place(move.destination, at)
            if isinstance(move.source, Fill):
                yield to // dtype.itemsize, np.frombuffer(move.source.pattern, dtype)[0].item()
            elif to >= 0 and (source := self._place(move.source, at)) >= 0:
                yield to // dtype.itemsize, self._elements[move.source.operand][source // dtype.itemsize]

    def _place(self, access: Access, at: Sizes) -> int:
        """Bytes from an operand's first element; −1 where an index is skipped."""
        place = access.offset + _along(access.strides, at)
        for lookup in access.lookups:
            index = self._index(lookup, at)
            index += lookup.size * (index < 0)
            if not 0 <= index < lookup.size:
                if lookup.outside == "skip":
                    return -1
                raise NotKnownError("an index is outside")
            place += index * lookup.stride
        return place

    def _index(self, lookup: Lookup, at: Sizes) -> int:
        elements = self._elements[lookup.operand]
        place = lookup.offset + _along(lookup.strides, at)
        return int(elements[place // np.dtype(lookup.dtype).itemsize])

    def computed(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], more: int = 0
    ) -> Tensor:
        """As `Moving.computed`."""
        if is_open(shape) or math.prod(shape) > FEW:
            raise NotKnownError(node.label)
        found = make()
        return Tensor(dtype, shape, known_array(found.reshape(-1).tolist(), dtype, shape), maker=node.label)


def folded(node: Node, inputs: Sequence[Flowing | None]) -> tuple[Flowing, ...] | None:
    """What a node makes of few elements that are known; None where its inputs are others, or its results.

    Raises:
        ModelError: the inputs do not fit the operator.
    """
    if not all(each is None or (isinstance(each, Tensor) and _is_few(each)) for each in inputs):
        return None
    try:
        return Folding().results(node, inputs)
    except NotKnownError:
        return None


def _is_few(tensor: Tensor) -> bool:
    return tensor.array is not None and not tensor.dtype.hasobject and tensor.size <= FEW


def _along(strides: Sequence[int], at: Sizes) -> int:
    return sum(stride * digit for stride, digit in zip(strides, at, strict=True))
