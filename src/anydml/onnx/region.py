"""A region: nodes in a row whose moves are composed, and become one program."""

from __future__ import annotations

import math
import weakref
from collections.abc import Hashable

import numpy as np

from anydml.moves.compose import CONSTANT, OUTPUT, Composer
from anydml.moves.value import Value
from anydml.onnx.moving import POSITION, Write, packed
from anydml.onnx.values import Array, Held, Tensor


class Region(Composer):
    """Nodes in a row that become one program.

    Attributes:
        sources: the arrays that the program reads, by the number of the input.
        made: the results that are described in it, those that are still needed.
        written: the results among its outputs, with what is written over them.
        nodes: what errors call its nodes.
        scratch: bytes that are stored in between.
        pieces: of all its values.
        work: factors that its nodes have composed.
        held: keeps what nodes have made for it counted.
        texts: arrays of strings that it moves by position, one after the other.
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
        """The value in scratch of its own."""
        stored = super().stored(value, reason)
        self.scratch += math.prod(value.sizes) * value.element_size
        return stored

    def value_of(self, tensor: Tensor) -> Value:
        """What a tensor is made of."""
        if tensor.array is None:
            assert tensor.value is not None, "what is described is part of the region"
            return tensor.value
        if id(tensor) not in self._values:
            self._values[id(tensor)] = tensor, self.source(tensor.array)
        return self._values[id(tensor)][1]

    def source(self, array: Array) -> Value:
        """An array that the program reads."""
        if array.dtype.hasobject:
            array = self.positions_of(array)
        self.sources.append(array)
        return self.input(f"source {len(self.sources) - 1}", array.shape, array.strides, array.itemsize)

    def positions_of(self, texts: Array) -> Array:
        """Where strings stand among all those of the region."""
        first = self._positions
        self.texts.append(texts.reshape(-1))
        self._positions += texts.size
        return np.arange(first, self._positions, dtype=POSITION).reshape(texts.shape)

    def overwrite(self, tensor: Tensor, write: Write) -> None:
        """Store a result now, and write over it."""
        assert tensor.value is not None, "it is new"
        number = OUTPUT + len(self.written)
        self.output(tensor.maker, tensor.value)
        self._moves += write(number, packed(tensor.shape, tensor.value.element_size))
        self.written.append(tensor)

    def key(self) -> Hashable:
        """What tells its program from others; None where it has constants, whose elements would be part of it."""
        if self._counts[CONSTANT]:
            return None
        # Outputs that nothing is moved to still count.
        return *self._moves, *self._counts.values(), self.scratch

    def results(self) -> list[Tensor]:
        """Its results that are still needed, in the order of the program's outputs."""
        alive = [tensor for reference in self.made if (tensor := reference()) is not None]
        return [*self.written, *(tensor for tensor in alive if tensor.array is None and tensor not in self.written)]
