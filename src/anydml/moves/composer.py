"""Building a program out of values: they are composed where possible, and stored in scratch where not.

Callers pass values to the methods of a `Composer`; `program` returns the moves that write the outputs, each byte once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from anydml.moves.accesses import single_access, strided
from anydml.moves.arithmetic_sequences import is_arithmetic_sequence, sequence_elements, sequence_piece
from anydml.moves.constant import Constant, LazyConstant, as_bytes
from anydml.moves.move import Access, Fill, Move, OutOfRange, unless
from anydml.moves.move_numbers import renumber_operands
from anydml.moves.new_axes import split
from anydml.moves.open_numbers import has_zero
from anydml.moves.pieces import Factor, NotComposableError, Piece
from anydml.moves.program import Operand, Program
from anydml.moves.simplify import simplify
from anydml.moves.sliding_windows import windows
from anydml.moves.value import MAX_PIECES, Value, join
from anydml.tensor import Layout

INPUT, OUTPUT, CONSTANT, SCRATCH = (k << 32 for k in range(4))
"""First operand number of each role while the program is built. `Composer.program` assigns the final numbers."""


class Composer:
    """Builds one program out of values.

    A method whose composition is impossible stores its argument in scratch first, with the reason.

    Args:
        name: the program's name in explanations and errors.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._operands: dict[int, Operand] = {}
        self._moves: list[Move] = []
        self._counts = {INPUT: 0, OUTPUT: 0, CONSTANT: 0, SCRATCH: 0}

    def copy(self) -> Composer:
        """Return an independent copy."""
        copied = Composer(self.name)
        copied._operands, copied._moves, copied._counts = {**self._operands}, [*self._moves], {**self._counts}
        return copied

    def operand(self, operand: int) -> Operand:
        """Return the operand of a number."""
        return self._operands[operand]

    def moves_to_store(self, value: Value) -> list[Move]:
        """Return the moves so far, and the moves that write a value to operand `OUTPUT`."""
        return [*self._moves, *value.moves(OUTPUT, 0, _packed(value))]

    def input(self, name: str, sizes: Sequence[int], strides: Sequence[int], element_size: int) -> Value:
        """Add an input, with strides in bytes."""
        return Value.of_operand(self._add(INPUT, Operand("input", name)), sizes, strides, element_size)

    def constant(self, name: str, array: Constant) -> Value:
        """Add a constant, which is not computed before a program reads it."""
        # `ascontiguousarray` returns a scalar with one dimension.
        packed = array if isinstance(array, LazyConstant) else np.ascontiguousarray(array).reshape(array.shape)
        flat = as_bytes(packed) if packed.nbytes else np.empty(0, np.uint8)
        operand = self._add(CONSTANT, Operand("constant", name, value=flat))
        return Value.of_operand(operand, array.shape, packed.strides, array.dtype.itemsize)

    def arithmetic_sequence(self, start: int, count: int, step: int) -> Value:
        """Return the INT64 sequence ``start + step·k``, 0 ≤ k < count. It occupies no memory."""
        return Value((count,), 8, (sequence_piece(start, count, step),) if count else ())

    def output(self, name: str, value: Value, strides: Sequence[int] | None = None) -> None:
        """Add an output, with strides in bytes (packed by default)."""
        operand = self._add(OUTPUT, Operand("output", name))
        self._moves += value.moves(operand, 0, _packed(value) if strides is None else strides)

    def reshape(self, value: Value, sizes: Sequence[int]) -> Value:
        """Reshape in row-major order."""
        return self._try(value, lambda source: source.reshape(sizes))

    def split(self, value: Value, axis: int, sizes: Sequence[int]) -> Value:
        """Split one axis into several, in row-major order."""
        return self._try(value, lambda source: split(source, axis, sizes))

    def slice(self, value: Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Value:
        """``result[c] = value[starts + steps·c]``."""
        return self._try(value, lambda source: source.slice(starts, sizes, steps))

    def cut(self, value: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
        """Slice one axis."""
        starts, sizes, steps = [0] * len(value.sizes), [*value.sizes], [1] * len(value.sizes)
        starts[axis], sizes[axis], steps[axis] = start, size, step
        return self.slice(value, starts, sizes, steps)

    def broadcast(self, value: Value, sizes: Sequence[int]) -> Value:
        """Broadcast by NumPy's rules."""
        return self._try(value, lambda source: source.broadcast(sizes))

    def windows(self, value: Value, axis: int, count: int, length: int, step: int, apart: int = 1) -> Value:
        """``result[…, i, …, j] = value[…, step·i + apart·j, …]``."""
        return self._try(value, lambda source: windows(source, axis, count, length, step, apart))

    def diagonal(self, value: Value, axis: int, second_axis: int) -> Value:
        """``result[…, i, …] = value[…, i, …, i, …]``: one axis in place of `axis` and `second_axis`."""
        return self._try(value, lambda source: source.diagonal(axis, second_axis))

    def pick(self, value: Value, indices: Value, dtype: str, axis: int, outside: OutOfRange = "clamp") -> Value:
        """Select elements along an axis by integers."""
        indices = self.without_fills(indices)
        return self._try(value, lambda source: source.pick(indices, dtype, axis, outside))

    def pick_points(
        self, value: Value, picks: Sequence[tuple[int, Value, str]], outside: OutOfRange = "clamp"
    ) -> Value:
        """Select elements by one index along each of several axes at once.

        Args:
            value: the source.
            picks: axes in ascending order, each with its indices, all of one shape, and their dtype.
            outside: treatment of indices out of range.

        Returns:
            A value in which the axes of the indices replace the first axis, and the other axes are gone.
        """
        simple_picks = [(axis, self.without_fills(indices), dtype) for axis, indices, dtype in picks]
        count = len(simple_picks[0][1].sizes)

        def points(source: Value) -> Value:
            position = 0
            for pick_number, (axis, indices, dtype) in enumerate(reversed(simple_picks)):
                source = source.pick(indices, dtype, axis, outside)
                for k in reversed(range(count if pick_number else 0)):
                    source = source.diagonal(axis + k, position + count - 1 + k)
                position = axis
            return source

        return self._try(value, points)

    def join(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenate values along an axis."""
        if len(values) > MAX_PIECES:
            groups = [values[k : k + MAX_PIECES] for k in range(0, len(values), MAX_PIECES)]
            values = [self.join(group, axis) for group in groups]
        try:
            return join(values, axis)
        except NotComposableError as error:
            return join([self.store(value, str(error)) for value in values], axis)

    def store(self, value: Value, reason: str) -> Value:
        """Store a value in new scratch."""
        operand, strides = self.new_scratch(value, reason)
        return Value.of_operand(operand, value.sizes, strides, value.element_size)

    def total_scratch_bytes(self) -> int:
        """Return the total bytes of scratch."""
        return sum(operand.size for operand in self._operands.values() if operand.role == "scratch")

    def program(self, is_simple: bool = True) -> Program:
        """Return the program; its moves are simplified if `is_simple`, which needs sizes that are not open."""
        order = sorted(self._operands)
        numbers = {operand: new_operand for new_operand, operand in enumerate(order)}
        moves = [renumber_operands(move, numbers) for move in self._moves]
        return Program(
            self.name,
            tuple(self._operands[operand] for operand in order),
            simplify(moves) if is_simple else tuple(moves),
        )

    def without_sequences(self, value: Value) -> Value:
        """Replace pieces that count by constants."""
        if not any(is_arithmetic_sequence(piece.source) for piece in value.pieces):
            return value
        pieces = []
        for piece in value.pieces:
            if is_arithmetic_sequence(piece.source):
                (constant_piece,) = self.constant("numbers", sequence_elements(piece)).pieces
                piece = piece._replace(source=constant_piece.source)  # noqa: PLW2901
            pieces.append(piece)
        return value.with_pieces(pieces)

    def without_fills(self, value: Value) -> Value:
        """Replace fills by constants."""
        pieces = []
        for piece in value.pieces:
            source = piece.source
            if isinstance(source, Fill):
                pattern = np.frombuffer(source.pattern * (value.element_size // len(source.pattern)), np.uint8)
                operand = self._add(CONSTANT, Operand("constant", "a number", value=pattern))
                source = Access(operand, 0, (0,) * len(piece.factors))
            pieces.append(piece._replace(source=source))
        return value.with_pieces(pieces)

    def _add(self, first_number: int, operand: Operand) -> int:
        operand_number = first_number + self._counts[first_number]
        self._counts[first_number] += 1
        self._operands[operand_number] = operand
        return operand_number

    def unless(self, value: Value, mask: Value, reason: str) -> Value:
        """Return the elements of a value whose byte of a mask is 0; moves leave out the others."""
        if has_zero(value.sizes):
            return Value(value.sizes, value.element_size, ())
        source, by = (self.access_of(self.without_fills(operand), reason) for operand in (value, mask))
        if by.lookups:
            by = self.access_of(self.store(mask, reason), reason)
        lookup = unless(by.operand, by.strides)._replace(offset=by.offset)
        factors = tuple([Factor(axis, size, 1) for axis, size in enumerate(value.sizes)])
        piece = Piece((0,) * len(factors), factors, source._replace(lookups=(*source.lookups, lookup)))
        return Value(value.sizes, value.element_size, (piece,))

    def new_scratch(self, value: Value, reason: str) -> tuple[int, tuple[int, ...]]:
        """Store a value in new scratch, which later moves may overwrite; return the operand and the strides."""
        value = self.without_sequences(value)
        size = math.prod(value.sizes) * value.element_size
        operand = self._add(SCRATCH, Operand("scratch", f"scratch {self._counts[SCRATCH]}", size, reason=reason))
        strides = _packed(value)
        self._moves += value.moves(operand, 0, strides)
        return operand, strides

    def write(self, to: Access, value: Value) -> None:
        """Write a value to memory."""
        self._moves += value.moves(to.operand, to.offset, to.strides)

    def add(self, move: Move) -> None:
        """Add a move."""
        self._moves.append(move)

    def access_of(self, value: Value, reason: str) -> Access:
        """Return the access that reads a value, one stride per axis; the value is stored if there is none."""
        value = self.without_sequences(value)
        if (simple := strided(value)) is not None:
            return simple[0]._replace(strides=simple[1].strides)
        access = single_access(value) or single_access(self.store(value, reason))
        if access is None:
            raise AssertionError("a stored value is one access")
        return access

    def _try(self, value: Value, change: Callable[[Value], Value]) -> Value:
        try:
            return change(value)
        except NotComposableError as error:
            return change(self.store(value, str(error)))


class ComposerWithoutScratch(Composer):
    """The same composer, but a method whose composition is impossible raises NotComposableError."""

    def __init__(self, composer: Composer) -> None:
        self.__dict__ = composer.__dict__

    def _try(self, value: Value, change: Callable[[Value], Value]) -> Value:
        return change(value)


def _packed(value: Value) -> tuple[int, ...]:
    """Return row-major strides in bytes without gaps."""
    return Layout.packed(value.sizes, value.element_size).strides
