"""A region: consecutive nodes whose moves are composed to one program."""

from __future__ import annotations

import math
import weakref
from collections.abc import Hashable

import numpy as np

from anydml.moves.compose import CONSTANT, OUTPUT, Composer
from anydml.moves.value import Value
from anydml.onnx.lowering import POSITION, Write
from anydml.onnx.values import Array, Held, Tensor
from anydml.tensor import Layout


class Region(Composer):
    """Consecutive nodes that are composed to one program.

    Attributes:
        sources: the arrays that the program reads, by input number.
        made: weak references to the results that are composed in the region.
        written: results that are partly overwritten, which must be outputs.
        nodes: labels of its nodes.
        scratch: size of its scratch memory in bytes.
        pieces: total number of pieces of its values.
        work: total number of factors that its nodes composed.
        held: holds the arrays that nodes created for it in the budget.
        texts: arrays of strings that it moves by position, in order.
    """

    def __init__(self) -> None:
        super().__init__("onnx")
        self.sources: list[Array] = []
        self.made: list[weakref.ref[Tensor]] = []
        self.written: list[Tensor] = []
        self.nodes: list[str] = []
        self.scratch = 0
        self.pieces = 0
        self.work = 0
        self.held: list[Held] = []
        self.texts: list[Array] = []
        self._positions = 0
        self._values: dict[int, tuple[Tensor, Value]] = {}

    def stored(self, value: Value, reason: str) -> Value:
        """Store a value in scratch memory, and count its bytes."""
        stored = super().stored(value, reason)
        self.scratch += math.prod(value.sizes) * value.element_size
        return stored

    def value_of(self, tensor: Tensor) -> Value:
        """Return the value of a tensor; a stored tensor becomes an input of the program."""
        if tensor.array is None:
            assert tensor.value is not None, "what is described is part of the region"
            return tensor.value
        if id(tensor) not in self._values:
            self._values[id(tensor)] = tensor, self.source(tensor.array)
        return self._values[id(tensor)][1]

    def source(self, array: Array) -> Value:
        """Add an array as an input of the program."""
        if array.dtype.hasobject:
            array = self.positions_of(array)
        self.sources.append(array)
        return self.input(f"source {len(self.sources) - 1}", array.shape, array.strides, array.itemsize)

    def positions_of(self, texts: Array) -> Array:
        """Return the positions of strings among all strings of the region, as INT64."""
        first = self._positions
        self.texts.append(texts.reshape(-1))
        self._positions += texts.size
        return np.arange(first, self._positions, dtype=POSITION).reshape(texts.shape)

    def overwrite(self, tensor: Tensor, write: Write) -> None:
        """Make a result an output of the program, and overwrite parts of it."""
        assert tensor.value is not None, "it is new"
        number = OUTPUT + len(self.written)
        self.output(tensor.maker, tensor.value)
        self._moves += write(number, Layout.packed(tensor.shape, tensor.value.element_size).strides)
        self.written.append(tensor)

    def key(self) -> Hashable:
        """Return a cache key of its program; None if it has constants, since the key does not contain elements."""
        if self._counts[CONSTANT]:
            return None
        # Include operand counts, since outputs may have no moves.
        return *self._moves, *self._counts.values(), self.scratch

    def results(self) -> list[Tensor]:
        """Return the live results in the order of the program's outputs."""
        alive = [tensor for reference in self.made if (tensor := reference()) is not None]
        return [*self.written, *(tensor for tensor in alive if tensor.array is None and tensor not in self.written)]
