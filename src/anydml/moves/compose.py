"""A program in the making: values are composed as long as they can be, and stored in scratch where they can't.

Operators call the methods of a `Composer` with values; `program` says what has to move so that the results stand in the
outputs, each byte once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from anydml.moves.constant import Constant
from anydml.moves.counting import counting, is_counting, numbers
from anydml.moves.move import Access, Fill, Move, Outside
from anydml.moves.pieces import NotComposableError
from anydml.moves.program import Operand, Program, renumbered
from anydml.moves.simplify import simplify
from anydml.moves.value import MOST_PIECES, Value, join, pad
from anydml.moves.windows import windows
from anydml.tensor import Layout

INPUT, OUTPUT, CONSTANT, SCRATCH = (k << 32 for k in range(4))
"""Where the numbers of operands begin until it is known how many there are of each role."""


class Composer:
    """Values over the operands of one program.

    Args:
        name: what explanations and errors call the program.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._operands: dict[int, Operand] = {}
        self._moves: list[Move] = []
        self._counts = {INPUT: 0, OUTPUT: 0, CONSTANT: 0, SCRATCH: 0}

    def copy(self) -> Composer:
        """Another one that goes on from here."""
        other = Composer(self.name)
        other._operands, other._moves, other._counts = {**self._operands}, [*self._moves], {**self._counts}
        return other

    def name_of(self, operand: int) -> str:
        """What errors call an operand."""
        return self._operands[operand].name

    def input(self, name: str, sizes: Sequence[int], strides: Sequence[int], element_size: int) -> Value:
        """The next input, with byte strides."""
        return Value.stored(self._add(INPUT, Operand("input", name)), sizes, strides, element_size)

    def constant(self, name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Value:
        """Elements that are known."""
        # A scalar comes back with a dimension.
        packed = np.ascontiguousarray(array).reshape(array.shape)
        flat = packed.reshape(-1).view(np.uint8) if packed.size else np.empty(0, np.uint8)
        number = self._add(CONSTANT, Operand("constant", name, value=flat))
        return Value.stored(number, array.shape, packed.strides, array.itemsize)

    def counting(self, start: int, count: int, step: int) -> Value:
        """``start + step·k`` for each k below a count, as INT64."""
        return Value((count,), 8, (counting(start, count, step),) if count else ())

    def output(self, name: str, value: Value, strides: Sequence[int] | None = None) -> None:
        """The next output, with byte strides; packed where there are none."""
        number = self._add(OUTPUT, Operand("output", name))
        self._moves += value.moves(number, 0, _packed(value) if strides is None else strides)

    def reshape(self, value: Value, sizes: Sequence[int]) -> Value:
        """In row-major order in another shape."""
        return self._try(value, lambda each: each.reshape(sizes))

    def slice(self, value: Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Value:
        """``result[c] = value[starts + steps·c]``."""
        return self._try(value, lambda each: each.slice(starts, sizes, steps))

    def broadcast(self, value: Value, sizes: Sequence[int]) -> Value:
        """NumPy's broadcasting."""
        return self._try(value, lambda each: each.broadcast(sizes))

    def windows(self, value: Value, axis: int, count: int, length: int, step: int) -> Value:
        """``result[…, i, …, j] = value[…, step·i + j, …]``."""
        return self._try(value, lambda each: windows(each, axis, count, length, step))

    def diagonal(self, value: Value, axis: int, other: int) -> Value:
        """``result[…, i, …] = value[…, i, …, i, …]``: two axes of one size as one, which stands where `axis` was."""
        return self._try(value, lambda each: each.diagonal(axis, other))

    def pick(self, value: Value, indices: Value, dtype: str, axis: int, outside: Outside = "clamp") -> Value:
        """Elements along an axis picked by stored or described integers."""
        indices = self._without_fills(indices)
        return self._try(value, lambda each: each.pick(indices, dtype, axis, outside))

    def pick_points(self, value: Value, picks: Sequence[tuple[int, Value, str]], outside: Outside = "clamp") -> Value:
        """Elements picked by one index along each of several axes at once.

        Args:
            value: what is picked from.
            picks: axes in rising order, each with indices, all of one shape, and their dtype.
            outside: what happens where an index lies outside.

        Returns:
            The value with the axes of the indices where the first axis was, without the others.
        """
        known = [(axis, self._without_fills(indices), dtype) for axis, indices, dtype in picks]
        count = len(known[0][1].sizes)

        def points(each: Value) -> Value:
            place = 0
            for number, (axis, indices, dtype) in enumerate(reversed(known)):
                each = each.pick(indices, dtype, axis, outside)
                for k in reversed(range(count if number else 0)):
                    each = each.diagonal(axis + k, place + count - 1 + k)
                place = axis
            return each

        return self._try(value, points)

    def pick_along(self, value: Value, indices: Value, dtype: str, axis: int, outside: Outside = "clamp") -> Value:
        """``result[lead, j, trail] = value[lead, indices[lead, j, trail], trail]``: other sizes agree."""
        indices = self._without_fills(indices)

        def along(each: Value, by: Value) -> Value:
            rank = len(each.sizes)
            found = each.pick(by, dtype, axis, outside)
            # Its axes: those before, the indices', those behind. Each other axis is there twice.
            for k in reversed(range(axis + 1, rank)):
                found = found.diagonal(axis + k, rank + k - 1)
            for k in reversed(range(axis)):
                found = found.diagonal(k, axis + k)
            return found

        try:
            return along(value, indices)
        except NotComposableError as error:
            value = self.stored(value, str(error))
        try:
            return along(value, indices)
        except NotComposableError as error:
            return along(value, self.stored(indices, str(error)))

    def join(self, values: Sequence[Value], axis: int) -> Value:
        """Values one after the other along an axis."""
        if len(values) > MOST_PIECES:
            groups = [values[k : k + MOST_PIECES] for k in range(0, len(values), MOST_PIECES)]
            values = [self.join(group, axis) for group in groups]
        try:
            return join(values, axis)
        except NotComposableError as error:
            return join([self.stored(value, str(error)) for value in values], axis)

    def pad(self, value: Value, before: Sequence[int], after: Sequence[int], pattern: bytes) -> Value:
        """A value with elements of `pattern` around it."""
        return self._try(value, lambda each: pad(each, before, after, pattern))

    def moved(
        self,
        values: Sequence[Value],
        shapes: Sequence[Sequence[int]],
        element_size: int,
        lower: Callable[[Sequence[Layout], Sequence[Layout]], Sequence[Move]],
        reason: str,
        constants: Callable[[Sequence[Layout], Sequence[Layout]], Sequence[Constant]] | None = None,
    ) -> list[Value]:
        """What moves of one's own make of values, in scratch.

        Args:
            values: what they read; each is stored first, if it is not.
            shapes: of what they write.
            element_size: bytes of an element of what they write.
            lower: the moves, from the layouts of values (operands 0 …) and of results (the operands after them).
            reason: why scratch is needed.
            constants: what the moves read beside them, from the same layouts: the operands after the results.
        """
        inputs = [self._as_operand(value, reason) for value in values]
        results = []
        for shape in shapes:
            size = math.prod(shape) * element_size
            scratch = Operand("scratch", f"scratch {self._counts[SCRATCH]}", size, reason=reason)
            layout = Layout.packed(tuple(shape), element_size)
            results.append((self._add(SCRATCH, scratch), layout))
        layouts = [layout for _, layout in inputs], [layout for _, layout in results]
        known = [] if constants is None else constants(*layouts)
        more = [self._add(CONSTANT, Operand("constant", f"constant {k}", value=each)) for k, each in enumerate(known)]
        numbers = dict(enumerate([*(number for number, _ in [*inputs, *results]), *more]))
        moves = lower(*layouts)
        self._moves += [renumbered(move, numbers) for move in moves if 0 not in move.sizes]
        return [Value.stored(number, each.sizes, each.strides, element_size) for number, each in results]

    def overwritten(
        self,
        value: Value,
        parts: Sequence[Value],
        lower: Callable[[Sequence[Layout], Layout], Sequence[Move]],
        reason: str,
    ) -> Value:
        """A value some of whose elements are others, in scratch.

        Args:
            value: all of it is stored first.
            parts: what is read beside it; each is stored first, if it is not.
            lower: what is written over it, from the layouts of parts (operands 0 …) and of the value (the one after).
            reason: why scratch is needed.
        """
        operands = [self._as_operand(self._without_fills(part), reason) for part in parts]

        def write(number: int, strides: Sequence[int]) -> Sequence[Move]:
            numbers = dict(enumerate([*(each for each, _ in operands), number]))
            target = Layout(value.sizes, tuple(strides), value.element_size)
            return [renumbered(move, numbers) for move in lower([each for _, each in operands], target)]

        return self.written_over(value, write, reason)

    def written_over(self, value: Value, write: Callable[[int, tuple[int, ...]], Sequence[Move]], reason: str) -> Value:
        """A value in scratch, and what is written over it.

        Args:
            value: all of it is stored first.
            write: the moves, from the number of the scratch and its byte strides.
            reason: why scratch is needed.
        """
        stored = self.stored(value, reason)
        moves = write(SCRATCH + self._counts[SCRATCH] - 1, _packed(stored))
        self._moves += [move for move in moves if 0 not in move.sizes]
        return stored

    def _as_operand(self, value: Value, reason: str) -> tuple[int, Layout]:
        """The operand that a value is, whole; stored first if it is none."""
        value = self.without_counting(value)
        if (found := operand_of(value)) is not None:
            return found
        value = self.stored(value, reason)
        number = SCRATCH + self._counts[SCRATCH] - 1
        return number, Layout(value.sizes, _packed(value), value.element_size)

    def stored(self, value: Value, reason: str) -> Value:
        """The value in scratch of its own."""
        value = self.without_counting(value)
        size = math.prod(value.sizes) * value.element_size
        number = self._add(SCRATCH, Operand("scratch", f"scratch {self._counts[SCRATCH]}", size, reason=reason))
        strides = _packed(value)
        self._moves += value.moves(number, 0, strides)
        return Value.stored(number, value.sizes, strides, value.element_size)

    def bytes_stored(self) -> int:
        """Bytes of all scratch so far."""
        return sum(each.size for each in self._operands.values() if each.role == "scratch")

    def program(self, is_simple: bool = True) -> Program:
        """What stores all outputs; its moves are brought to their simplest form, unless their numbers are open."""
        order = sorted(self._operands)
        numbers = {operand: number for number, operand in enumerate(order)}
        moves = [renumbered(move, numbers) for move in self._moves]
        return Program(
            self.name,
            tuple(self._operands[operand] for operand in order),
            simplify(moves) if is_simple else tuple(moves),
        )

    def without_counting(self, value: Value) -> Value:
        """A value of which what counts is read from constants instead."""
        if not any(is_counting(piece.source) for piece in value.pieces):
            return value
        pieces = []
        for piece in value.pieces:
            if is_counting(piece.source):
                (known,) = self.constant("numbers", numbers(piece)).pieces
                piece = piece._replace(source=known.source)  # noqa: PLW2901
            pieces.append(piece)
        return replace(value, pieces=tuple(pieces))

    def _without_fills(self, value: Value) -> Value:
        """A value of which what is filled is read from constants instead."""
        pieces = []
        for piece in value.without_empty().pieces:
            source = piece.source
            if isinstance(source, Fill):
                pattern = np.frombuffer(source.pattern * (value.element_size // len(source.pattern)), np.uint8)
                number = self._add(CONSTANT, Operand("constant", "a number", value=pattern))
                source = Access(number, 0, (0,) * len(piece.factors))
            pieces.append(piece._replace(source=source))
        return replace(value, pieces=tuple(pieces))

    def _add(self, kind: int, operand: Operand) -> int:
        number = kind + self._counts[kind]
        self._counts[kind] += 1
        self._operands[number] = operand
        return number

    def _try(self, value: Value, change: Callable[[Value], Value]) -> Value:
        try:
            return change(value)
        except NotComposableError as error:
            return change(self.stored(value, str(error)))


def operand_of(value: Value) -> tuple[int, Layout] | None:
    """The operand whose elements from the first on a value is, with strides of its own; None where it is none."""
    found = strided(value)
    return None if found is None or found[0].offset else (found[0].operand, found[1])


def strided(value: Value) -> tuple[Access, Layout] | None:
    """The one access whose elements a value is, and how they lie from its offset on; None where it is more."""
    if len(value.pieces) != 1 or not isinstance(access := value.pieces[0].source, Access):
        return None
    piece, strides = value.pieces[0], [0] * len(value.sizes)
    covered = [1] * len(value.sizes)
    for factor, stride in zip(piece.factors, access.strides, strict=True):
        strides[factor.axis] = stride
        covered[factor.axis] *= factor.size if factor.step == 1 and covered[factor.axis] == 1 else 0
    if access.lookups or any(piece.start) or tuple(covered) != value.sizes:
        return None
    return access, Layout(value.sizes, tuple(strides), value.element_size)


def _packed(value: Value) -> tuple[int, ...]:
    """Byte strides of a value that is stored without gaps."""
    strides, step = [], value.element_size
    for size in reversed(value.sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
