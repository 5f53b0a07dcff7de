"""A graph under `anydml.fuse`: its nodes are composed once, for inputs of all sizes that its shape arithmetic takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from anydml.memory import limits
from anydml.moves.compose import SCRATCH, Composer, strided
from anydml.moves.move import Access, Fill, Lookup, Move, every_lookup
from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.onnx.folding import folded
from anydml.onnx.graph import Node
from anydml.onnx.moving import MOST_FACTORS, Moving, NotKnownError, Write
from anydml.onnx.values import INT64, Array, Flowing, Nothing, Sizes, Tensor, Tensors
from anydml.tracing.trace import Trace, TracedArray


class Tracing(Moving):
    """Nodes on tensors that are traced, or known: those that sizes and the model decide.

    Args:
        trace: of the graph.
    """

    runs = True

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._values: dict[int, tuple[Tensor, Value]] = {}

    def run(self, node: Node, inputs: Sequence[Flowing | None]) -> tuple[Flowing, ...]:
        """A node's results.

        Raises:
            ModelError: the inputs do not fit the operator.
            NotKnownError: elements decide what the graph does.
        """
        found = folded(node, inputs)
        return self.results(node, inputs) if found is None else found

    def result(self, value: Flowing) -> Any:
        """A value, as `fuse` sees it."""
        if isinstance(value, Nothing):
            return None
        if isinstance(value, Tensors):
            return [self.result(tensor) for tensor in value]
        return self._trace.made(self.composer.without_counting(self._value_of(value)), value.dtype)

    def check_memory(self, results: Sequence[TracedArray]) -> None:
        """Refuse results, and what is stored before them, for which there is no memory: a guard as all comparisons.

        Raises:
            MemoryError: there is none.
        """
        available = limits.available_memory()
        need = self.composer.bytes_stored() + sum(result.nbytes for result in results)
        if available is not None and need > available:
            raise MemoryError

    def ask(self, node: Node, size: int) -> None:
        """As `Moving.ask`."""
        Budget().ask(node.label, "what it looks up", int(size))

    @property
    def composer(self) -> Composer:
        """The trace's."""
        return self._trace.composer

    def stored(self, *tensors: Tensor) -> bool:
        """As `Moving.stored`."""
        if any(tensor.array is None for tensor in tensors):
            raise NotKnownError("elements")
        return True

    def look(self, *tensors: Tensor) -> bool:
        """As `Moving.look`."""
        return all(tensor.array is not None for tensor in tensors)

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """As `Moving.values`."""
        found = [*map(self._value_of, tensors)]
        if times * sum(len(value.pieces) * (1 + len(value.sizes)) for value in found) > MOST_FACTORS:
            return [self.composer.stored(value, "many pieces are composed") for value in found]
        return found

    def _value_of(self, tensor: Tensor) -> Value:
        if tensor.value is not None:
            return tensor.value
        if id(tensor) not in self._values:
            assert tensor.array is not None, "it is known"
            self._values[id(tensor)] = tensor, self.source(tensor.array.astype(tensor.dtype, copy=False))
        return self._values[id(tensor)][1]

    def source(self, array: Array) -> Value:
        """As `Moving.source`: part of the program, where they lie."""
        if array.dtype.hasobject:
            raise NotKnownError("strings")
        return self.composer.constant("a constant", array)

    def access(self, value: Value) -> Access | Fill:
        """As `Moving.access`."""
        value = self.composer.without_counting(value)
        found = strided(value)
        if found is None:
            stored = strided(self.composer.stored(value, "it is read while others are written over"))
            assert stored is not None, "it is stored"
            found = stored
        return found[0]._replace(strides=found[1].strides)

    def pattern(self, element: Array) -> bytes:
        """As `Moving.pattern`."""
        if element.dtype.hasobject:
            raise NotKnownError("strings")
        return element.tobytes()

    def _kept(self, node: Node, value: Value, dtype: np.dtype[Any], write: Write | None) -> Tensor:
        if write is not None:

            def checked(operand: int, strides: Sizes) -> Sequence[Move]:
                moves = write(operand, strides)
                _check_lookups(lookup for move in moves for lookup in move.every_lookup())
                return moves

            value = self.composer.written_over(value, checked, node.label)
        sources = [piece.source for piece in value.pieces if isinstance(piece.source, Access)]
        _check_lookups(lookup for source in sources for lookup in every_lookup(source.lookups))
        return Tensor(dtype, value.sizes, value=value, maker=node.label)

    def computed(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], more: int = 0
    ) -> Tensor:
        """As `Moving.computed`."""
        size = math.prod(map(int, shape)) * max(1, dtype.itemsize)
        Budget().ask(node.label, f"the result of shape {list(shape)}", size + more)
        return Tensor(dtype, shape, make(), maker=node.label)

    def counted(
        self, node: Node, start: Any, count: int, step: Any, dtype: np.dtype[Any], make: Callable[[], Array]
    ) -> Tensor:
        """As `Moving.counted`."""
        if dtype != INT64:
            return self.computed(node, (count,), dtype, make)
        return Tensor(dtype, (count,), value=self.composer.counting(start, count, step), maker=node.label)


def _check_lookups(lookups: Iterable[Lookup]) -> None:
    """Indices that may be refused are there before anything moves.

    Raises:
        NotKnownError: the program itself puts them where they are read.
    """
    if any(lookup.outside == "refuse" and lookup.operand >= SCRATCH for lookup in lookups):
        raise NotKnownError("whether indices are in range")
