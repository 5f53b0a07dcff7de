"""The kernel's description of its parts, passed in the cheapest way.

A *field* has one number per part. It is passed as one argument if all parts are equal, as a first value and a step if
they are evenly spaced, as one argument per part if there are few, and else as a column of a table. If it pays, the
number, or the first value and the step, are constants of the kernel.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from anydml.engines.cuda.schedule import LastWriteTable
from anydml.engines.cuda.tiles import Tiles, power_of_two
from anydml.engines.cuda.vector_moves import Addresses, Part

MAX_PARTS_BY_VALUE = 32
"""Maximum number of parts whose fields are passed by value, as in ONNX Runtime's kernel for equal parts."""

MAX_NARROW_BYTES = 2
"""Vectors up to this many bytes: there are so many that instructions cost more than bandwidth."""

MAX_ARGUMENTS = 400
"""Maximum number of arguments of 8 bytes: a launch accepts 4 KiB."""

FIRST_TILE_FIELD = 4
"""Number of the field with a part's first tile; all fields are listed in `kernel.py`."""

COLUMN_STEP_FIELDS = (6, 7)
"""Numbers of the fields with the destination's and the source's step per column."""

FIRST_ROW_FIELD = 8
"""First field of the row dimensions: size, destination and source stride, outermost first. Lookups follow."""

MAX_CONSTANT_STEP = 64
"""Largest step per column that is a constant of the kernel: larger ones depend on sizes."""


class Kind(enum.IntEnum):
    """Ways to pass a field, by the kernel's numbers."""

    COMMON = 0
    AFFINE = 1
    BY_VALUE = 2
    TABLE = 3
    CONSTANT = 4


def encode_number(number: int) -> int:
    """Encode a number for the kernel: never 1, never a multiple of 16, and too large for 32 bits.

    Triton specializes kernels on these properties, so without it every new size could compile another kernel.
    """
    return (1 << 60) + (number << 2 | 3)


@dataclass(frozen=True, slots=True)
class Address:
    """An address relative to an operand, resolved when operands are bound."""

    operand: int
    offset: int

    def resolve(self, addresses: Addresses) -> int:
        """Return the address in bytes."""
        return addresses[self.operand] + self.offset


Argument = int | Address
Column = list[int] | list[Address]


@dataclass(frozen=True, slots=True)
class Fields:
    """All fields of a launch, encoded.

    Attributes:
        shape: kind and two positions per field; for constants, first value and step.
        arguments: the arguments that the positions refer to.
        columns: the table's columns, with one entry per part.
        slots: arguments per field that is passed by value; 1 if none is.
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
        """Whether the table contains addresses, so that it depends on the buffers."""
        return any(isinstance(column[0], Address) for column in self.columns)


def columns_of(parts: Sequence[Part], tiles: Tiles, vector: int, winners: LastWriteTable | None = None) -> list[Column]:
    """Return all fields, with one number per part, in the kernel's order."""
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
    """Return address and offset of one end: parts of one operand share the address; offsets are in vectors."""
    operand, start, _ = ends[0]
    if all(end[0] == operand for end in ends):
        return [Address(operand, start)] * len(ends), [(offset - start) // vector for _, offset, _ in ends]
    return [Address(number, offset) for number, offset, _ in ends], [0] * len(ends)


def worthwhile_constants(part: Part, vector: int) -> dict[int, int]:
    """Return the fields that are constants of a kernel for large work, with their largest absolute value.

    These fields cost instructions per element. The numbers of rows and columns are not among them, nor, for wide
    vectors, the strides of the outermost rows, which change with every sequence length.
    """
    dims, anything = len(part.sizes) - 1, 1 << 63
    divisors = range(FIRST_ROW_FIELD + 3, FIRST_ROW_FIELD + 3 * dims, 3)
    constants = dict.fromkeys(divisors, anything) | dict.fromkeys(COLUMN_STEP_FIELDS, MAX_CONSTANT_STEP)
    for n in range(len(part.lookups)):
        first = FIRST_ROW_FIELD + 3 * dims + (5 + dims) * n
        constants |= {first + 3: anything, first + 4: MAX_CONSTANT_STEP}
    if vector <= MAX_NARROW_BYTES and dims:
        constants |= {FIRST_ROW_FIELD + 1: anything, FIRST_ROW_FIELD + 2: anything}
    return constants


def encode(columns: Sequence[Column], constants: Mapping[int, int]) -> Fields:
    """Choose a kind for every field: by value if all fields that differ can be, else by table.

    Args:
        columns: the result of `columns_of`.
        constants: largest absolute value, by field, up to which it is a constant of the kernel, if all parts are equal
            or evenly spaced. Other fields are constants only if they are −1, 0 or 1, so that other sizes need no
            other kernel.
    """
    count = len(columns[0])
    slots = power_of_two(count)
    kinds = [_kind(column, is_searched=f == FIRST_TILE_FIELD) for f, column in enumerate(columns)]
    differing = kinds.count(Kind.BY_VALUE)
    by_value = count <= MAX_PARTS_BY_VALUE and slots * differing + 2 * len(columns) <= MAX_ARGUMENTS
    shape: list[int] = []
    arguments: list[Argument] = []
    table: list[Column] = []

    for f, (column, dtype_name) in enumerate(zip(columns, kinds, strict=True)):
        if dtype_name in (Kind.COMMON, Kind.AFFINE):
            line: tuple[Argument, ...] = _line(column) if dtype_name is Kind.AFFINE else (column[0], 0)
            small = [n for n in line if isinstance(n, int) and abs(n) <= constants.get(f, 1)]
            if len(small) == len(line):
                shape += [Kind.CONSTANT, *small]
            else:
                shape += [dtype_name, len(arguments), len(arguments) + 1]
                arguments += line if dtype_name is Kind.AFFINE else line[:1]
        elif by_value:
            shape += [dtype_name, len(arguments), 0]
            # Slots beyond the last part repeat it; their first tile is greater than any program's number.
            last: int | Address = 2**31 - 1 if f == FIRST_TILE_FIELD else column[-1]
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
    """Return the first number of a column, and the step to the second."""
    first, second = column[:2]
    assert isinstance(first, int)
    assert isinstance(second, int)
    return first, second - first
