"""What the kernel must know of every part, and the cheapest way to tell it.

A *field* has one number a part. It is passed as one argument where all parts agree, as a first value and a step where
the parts are evenly spaced, as one argument a part where they are few, and else as a column of a table. Where it pays,
the kernel is compiled for the one number, or for first value and step.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from anydml.engines.cuda.parts import Addresses, Part
from anydml.engines.cuda.schedule import Winners
from anydml.engines.cuda.tiles import Tiles, power_of_two

BY_VALUE = 32
"""Parts whose fields are passed by value at most, as in ONNX Runtime's kernel for equal parts."""

NARROW = 2
"""Vectors of so many bytes are so many that their instructions cost more than their bytes."""

ARGUMENTS = 400
"""Arguments of 8 bytes at most: a launch takes 4 KiB of them."""

FIRST_TILE = 4
"""The field that tells programs where a part's tiles begin; the others are listed in `kernel.py`."""

STEPS = (6, 7)
"""Destination and source step a column."""

FIRST_ROW = 8
"""Size, destination and source stride of the outermost row dimension; those of the others follow, then the lookups."""

SMALL_STEP = 64
"""Steps a column that are worth a kernel of their own: larger ones are sizes of something."""


class Kind(enum.IntEnum):
    """How a field is passed; the kernel knows these numbers."""

    COMMON = 0
    AFFINE = 1
    BY_VALUE = 2
    TABLE = 3
    CONSTANT = 4


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


Argument = int | Address
Column = list[int] | list[Address]


@dataclass(frozen=True, slots=True)
class Fields:
    """All fields of a launch, encoded.

    Attributes:
        shape: kind and two positions a field; for constants, first value and step.
        arguments: what the positions refer to.
        columns: the table, one entry a part each.
        slots: arguments of a field that is passed by value; 1 where none is.
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


def columns_of(parts: Sequence[Part], tiles: Tiles, vector: int, winners: Winners | None = None) -> list[Column]:
    """Every field as one number a part, in the kernel's order."""
    columns: list[Column] = [
        *_end([part.to for part in parts], vector),
        *_end([part.source for part in parts], vector),
        [0] * len(parts) if tiles.is_even else [0, *accumulate(tiles.counts[:-1])],
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
    if winners:
        *strides, step = winners.strides + ((0,) if parts[0].is_run else ())
        columns += [[Address(winners.operand, 0)]]
        columns += [[number] for number in (winners.offset, step, *strides, *winners.steps, winners.entries)]
    return columns


def _end(ends: Sequence[tuple[int, int, tuple[int, ...]]], vector: int) -> tuple[Column, Column]:
    """Address and offset of one side: parts of one operand share an address and differ in vectors from it."""
    operand, start, _ = ends[0]
    if all(end[0] == operand for end in ends):
        return [Address(operand, start)] * len(ends), [(offset - start) // vector for _, offset, _ in ends]
    return [Address(number, offset) for number, offset, _ in ends], [0] * len(ends)


def worthwhile_constants(part: Part, vector: int) -> dict[int, int]:
    """The fields that large work has a kernel compiled for, and up to which absolute value.

    They are what each element costs instructions. The numbers of rows and columns are not among them, nor, where
    vectors are wide, the strides between the outermost rows: they change with every length of a sequence.
    """
    dims, anything = len(part.sizes) - 1, 1 << 63
    divisors = range(FIRST_ROW + 3, FIRST_ROW + 3 * dims, 3)
    constants = dict.fromkeys(divisors, anything) | dict.fromkeys(STEPS, SMALL_STEP)
    for n in range(len(part.lookups)):
        first = FIRST_ROW + 3 * dims + (5 + dims) * n
        constants |= {first + 3: anything, first + 4: SMALL_STEP}
    if vector <= NARROW and dims:
        constants |= {FIRST_ROW + 1: anything, FIRST_ROW + 2: anything}
    return constants


def encode(columns: Sequence[Column], constants: Mapping[int, int]) -> Fields:
    """Choose a kind for every field: by value if all that differ can be, else by table.

    Args:
        columns: of `columns_of`.
        constants: fields, and up to which absolute value the kernel is compiled for them, where all parts agree or are
            evenly spaced. Others are constants only where they are −1, 0 or 1, so that other sizes need no other
            kernel.
    """
    count = len(columns[0])
    slots = power_of_two(count)
    kinds = [_kind(column, is_searched=f == FIRST_TILE) for f, column in enumerate(columns)]
    differing = kinds.count(Kind.BY_VALUE)
    by_value = count <= BY_VALUE and slots * differing + 2 * len(columns) <= ARGUMENTS
    shape: list[int] = []
    arguments: list[Argument] = []
    table: list[Column] = []

    for f, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if kind in (Kind.COMMON, Kind.AFFINE):
            line: tuple[Argument, ...] = _line(column) if kind is Kind.AFFINE else (column[0], 0)
            small = [n for n in line if isinstance(n, int) and abs(n) <= constants.get(f, 1)]
            if len(small) == len(line):
                shape += [Kind.CONSTANT, *small]
            else:
                shape += [kind, len(arguments), len(arguments) + 1]
                arguments += line if kind is Kind.AFFINE else line[:1]
        elif by_value:
            shape += [kind, len(arguments), 0]
            # Slots beyond the last part repeat it; a first tile there lies after every program.
            last: int | Address = 2**31 - 1 if f == FIRST_TILE else column[-1]
            arguments += [*column, *[last] * (slots - count)]
        else:
            shape += [Kind.TABLE, len(table), 0]
            table.append(column)
    return Fields(tuple(shape), tuple(arguments), tuple(table), slots if by_value and differing else 1)


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
