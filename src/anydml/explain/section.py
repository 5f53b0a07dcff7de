"""The sections of an explanation: programs whose operands are tensors, with their values if known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from anydml.moves import Program, simplify
from anydml.moves.move import Access, Move
from anydml.moves.program import Operand, Role
from anydml.tensor import packed_strides
from anydml.text import count_noun

Array = np.ndarray[Any, Any]
Shape = tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]
"""Sizes, byte strides and dtype of an operand."""

MAX_VALUES = 1 << 16
"""Bytes of an operand up to which its values are kept; those of larger operands are never shown."""


@dataclass(frozen=True)
class Tensor:
    """An operand as it is shown.

    Attributes:
        name: name of the operand in the program.
        role: input, output, constant or scratch.
        sizes: one per dimension.
        strides: one per dimension, in bytes, of either sign, from the first element.
        element_size: bytes per element.
        dtype: dtype of the elements; None if only their size is known.
        values: the elements before the program runs; None if unknown.
        chunks: sizes of a chunk of a stored array; empty if it is stored in one piece, or in memory.
    """

    name: str
    role: Role
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    element_size: int
    dtype: np.dtype[Any] | None = None
    values: Array | None = None
    chunks: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)

    @property
    def bytes_spanned(self) -> int:
        """Number of bytes from the first to the last that belongs to an element."""
        if not self.count:
            return 0
        return sum((size - 1) * abs(stride) for size, stride in zip(self.sizes, self.strides, strict=True)) + (
            self.element_size
        )

    @property
    def type_name(self) -> str:
        """The dtype, or the size of elements whose dtype is unknown."""
        return f"{self.element_size} B" if self.dtype is None else str(self.dtype)

    @property
    def is_packed(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        packed = packed_strides(self.sizes)
        return all(
            size == 1 or stride == step * self.element_size
            for size, stride, step in zip(self.sizes, self.strides, packed, strict=True)
        )

    def __str__(self) -> str:
        text = f"{self.role} {self.name}: {self.type_name} {list(self.sizes)}, {count_noun(self.bytes_spanned, 'byte')}"
        if self.chunks:
            return f"{text}, chunks {list(self.chunks)}"
        return text if self.is_packed else f"{text}, strides {list(self.strides)} bytes"


@dataclass(frozen=True)
class Section:
    """One program of an explanation.

    Attributes:
        title: the title.
        program: the program.
        tensors: one per operand.
        compiled: description of the compiled program, or the reason why there is none.

    Examples:
        >>> (section,) = dml.explain(dml.fuse(lambda x: x[::-1]), np.arange(3)).sections
        >>> len(section.tensors)
        2
    """

    title: str
    program: Program
    tensors: tuple[Tensor, ...]
    compiled: str = ""

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The program's moves, simplified."""
        return simplify(self.program.moves)


def section(
    title: str,
    program: Program,
    shapes: Mapping[int, Shape],
    values: Mapping[int, Array],
    compiled: str = "",
    chunks: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
) -> Section:
    """Return a section for a program.

    Args:
        title: the title.
        program: the program.
        shapes: known shapes by operand number; other operands become one-dimensional.
        values: known values by operand number, as views of these shapes.
        compiled: description of the compiled program.
        chunks: sizes of a chunk by operand number, of arrays that are stored in chunks.
    """
    tensors = []
    for operand_number, operand in enumerate(program.operands):
        shape = shapes.get(operand_number)
        array = values.get(operand_number)
        if array is None and operand.value is not None and operand.value.nbytes <= MAX_VALUES:
            array = np.asarray(operand.value)
        if shape is None and (shown := operand.value if array is None else array) is not None:
            shape = (shown.shape, shown.strides, shown.dtype)
        tensors.append(
            replace(_tensor(program, operand_number, operand, shape, array), chunks=chunks.get(operand_number, ()))
        )
    return Section(title, program, tuple(tensors), compiled)


def _tensor(
    program: Program, operand_number: int, operand: Operand, shape: Shape | None, values: Array | None
) -> Tensor:
    name = f"{operand.name}, because {operand.reason}" if operand.reason else operand.name
    if shape is not None:
        sizes, strides, dtype = shape
        if values is not None and (values.nbytes > MAX_VALUES or values.shape != sizes or values.dtype != dtype):
            values = None
        return Tensor(name, operand.role, sizes, strides, dtype.itemsize, dtype, values)
    touched = [*_touched_ends(program, operand_number)]
    element = math.gcd(*(size for _, size in touched)) or 1
    size = operand.size or max((end for end, _ in touched), default=0)
    return Tensor(name, operand.role, (-(-size // element),), (element,), element)


def _touched_ends(program: Program, operand_number: int) -> Iterator[tuple[int, int]]:
    """Yield the end of each move's box in an operand, and its element size, in bytes."""
    for move in program.moves:
        for end in (move.destination, move.source):
            if isinstance(end, Access) and end.operand == operand_number and 0 not in move.sizes:
                yield _last_byte(end, move.sizes) + move.element_size, move.element_size
        for lookup in move.all_lookups():
            if lookup.operand == operand_number and 0 not in move.sizes:
                size = np.dtype(lookup.dtype).itemsize
                reach = Access(operand_number, lookup.offset, lookup.strides, lookup.lookups)
                yield _last_byte(reach, move.sizes) + size, size


def _last_byte(access: Access, sizes: Sequence[int]) -> int:
    reach = sum((size - 1) * max(stride, 0) for size, stride in zip(sizes, access.strides, strict=True))
    return access.offset + reach + sum((lookup.size - 1) * max(lookup.stride, 0) for lookup in access.lookups)
