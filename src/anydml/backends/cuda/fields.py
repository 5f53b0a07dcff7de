"""What the kernel must know of every part, and the cheapest way to tell it.

A *field* has one number a part. It is passed as one constant or argument where all parts agree, as a first value and a
step where the parts are evenly spaced, as one argument a part where they are few, and else as a column of a table.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from anydml.backends.cuda.parts import Addresses, Part
from anydml.backends.cuda.tiles import Tiles, power_of_two

BY_VALUE = 32
"""Parts whose fields are passed by value at most, as in ONNX Runtime's kernel for equal parts."""

ARGUMENTS = 400
"""Arguments of 8 bytes at most: a launch takes 4 KiB of them."""

FIRST_TILE = 4
"""The field that tells programs where a part's tiles begin; the others are listed in `kernel.py`."""


class Kind(enum.IntEnum):
    """How a field is passed; the kernel knows these numbers."""

    COMMON = 0
    AFFINE = 1
    BY_VALUE = 2
    TABLE = 3


def encoded(number: int) -> int:
    """A number as the kernel takes it: never 1, never a multiple of 16, and too large for 32 bits.

    Triton compiles a kernel anew for integers that are one of those; sizes that change on every call must not.
    """
    return (1 << 60) + (number << 2 | 3)


@dataclass(frozen=True, slots=True)
class Address:
    """An address that is known once operands are bound."""

    operand: int
    offset: int

    def resolve(self, addresses: Addresses) -> int:
        """In bytes."""
        return addresses[self.operand] + self.offset


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that the kernel is compiled for."""

    value: int


Argument = int | Constant | Address
Column = list[int] | list[Address]


@dataclass(frozen=True, slots=True)
class Fields:
    """All fields of a launch, encoded.

    Attributes:
        shape: kind and two positions a field.
        arguments: what the positions refer to.
        columns: the table, one entry a part each.
        slots: arguments of a field that is passed by value.
    """

    shape: tuple[int, ...]
    arguments: tuple[Argument, ...]
    columns: tuple[Column, ...]
    slots: int

    @property
    def kinds(self) -> set[Kind]:
        """The kinds in use."""
        return set(map(Kind, self.shape[::3]))

    @property
    def has_addresses_in_table(self) -> bool:
        """Whether the table changes with the buffers."""
        return any(isinstance(column[0], Address) for column in self.columns)


def columns_of(parts: Sequence[Part], tiles: Tiles, vector: int) -> list[Column]:
    """Every field as one number a part, in the kernel's order."""
    columns: list[Column] = [
        *_end([part.to for part in parts], vector),
        *_end([part.source for part in parts], vector),
        [sum(tiles.counts[:k]) for k in range(len(parts))] if not tiles.is_even else [0] * len(parts),
        [part.columns for part in parts],
        [part.to[2][-1] for part in parts],
        [part.source[2][-1] for part in parts],
    ]
    for d in range(len(parts[0].sizes) - 1):
        columns += [[part.sizes[d] for part in parts], [p.to[2][d] for p in parts], [p.source[2][d] for p in parts]]
    for n in range(len(parts[0].lookups)):
        lookups = [part.lookups[n] for part in parts]
        columns += [
            [Address(lookup.operand, lookup.offset) for lookup in lookups],
            [0] * len(parts),
            [lookup.size - 1 for lookup in lookups],
            [lookup.stride for lookup in lookups],
            [lookup.strides[-1] for lookup in lookups],
        ]
        columns += [[lookup.strides[d] for lookup in lookups] for d in range(len(parts[0].sizes) - 1)]
    return columns


def _end(ends: Sequence[tuple[int, int, tuple[int, ...]]], vector: int) -> tuple[Column, Column]:
    """Address and offset of one side: parts of one operand share an address and differ in vectors from it."""
    operand, start, _ = ends[0]
    if all(end[0] == operand for end in ends):
        return [Address(operand, start)] * len(ends), [(offset - start) // vector for _, offset, _ in ends]
    return [Address(number, offset) for number, offset, _ in ends], [0] * len(ends)


def encode(columns: Sequence[Column], is_specialized: bool) -> Fields:
    """Choose a kind for every field: by value if all that differ can be, else by table."""
    count = len(columns[0])
    slots = power_of_two(count)
    kinds = [_kind(column, is_searched=f == FIRST_TILE) for f, column in enumerate(columns)]
    differing = kinds.count(Kind.BY_VALUE)
    by_value = count <= BY_VALUE and slots * differing + 2 * len(columns) <= ARGUMENTS
    shape: list[int] = []
    arguments: list[Argument] = []
    table: list[Column] = []

    def put(value: Argument) -> int:
        small = isinstance(value, int) and (is_specialized or -1 <= value <= 1)
        arguments.append(Constant(value) if small and isinstance(value, int) else value)
        return len(arguments) - 1

    for f, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if kind is Kind.COMMON:
            shape += [kind, put(column[0]), 0]
        elif kind is Kind.AFFINE:
            first, step = _line(column)
            shape += [kind, put(first), put(step)]
        elif by_value:
            shape += [kind, len(arguments), 0]
            # Slots beyond the last part repeat it; a first tile there lies after every program.
            last: int | Address = 2**31 - 1 if f == FIRST_TILE else column[-1]
            arguments += [*column, *[last] * (slots - count)]
        else:
            shape += [Kind.TABLE, len(table), 0]
            table.append(column)
    return Fields(tuple(shape), tuple(arguments), tuple(table), slots)


def _kind(column: Column, is_searched: bool) -> Kind:
    first = column[0]
    if all(value == first for value in column):
        return Kind.COMMON
    if isinstance(first, int) and not is_searched:
        start, step = _line(column)
        if all(value == start + k * step for k, value in enumerate(column)):
            return Kind.AFFINE
    return Kind.BY_VALUE


def _line(column: Column) -> tuple[int, int]:
    """The first number of a column, and the step to its second."""
    first, second = column[:2]
    assert isinstance(first, int)
    assert isinstance(second, int)
    return first, second - first
