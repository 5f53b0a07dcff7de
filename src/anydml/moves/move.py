"""Moves, the primitive that every operator is lowered to, and their two ends, source and destination.

    for every coordinate c of a box `sizes`:   destination[a(c)] = source[b(c)]

`a` and `b` are `Access`es: a byte offset into an operand, one signed byte stride per dimension, and zero or more
`Lookup`s. A lookup reads one integer from an index operand, at an address that may itself depend on lookups, and adds
it times a stride. The source may also be a `Fill`: a few bytes, repeated.

    SPLIT    one move per part: same source, shifted offset
    JOIN     one move per part: same destination, shifted offset
    SLICE    one move; the source strides carry the steps, negative ones walk backwards
    GATHER   one move; one lookup in the source
    IF       two moves: all of one source, then the other one's elements where the mask is 0

Offsets, strides and sizes of elements are in bytes, so that engines need no data types.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

OutOfRange = Literal["clamp", "skip", "error"]
"""Treatment of an index out of range: it is clamped, its element is left unchanged, or the dispatch raises IndexError
before anything is written."""


make_tuple: Any = tuple.__new__
"""Makes named tuples in half the time of their own constructors: descs may have thousands of parts."""


class Lookup(NamedTuple):
    """An index that is read per coordinate and adds ``stride · index`` bytes; negative ones count from the axis' end.

    Attributes:
        operand: number of the operand that holds the indices.
        dtype: NumPy's name of an index: ``"int32"``, ``"int64"``, ``"uint32"`` or ``"uint64"``; signed ones wrap once.
            ``"uint8"`` is a mask's: see `unless`.
        offset: bytes from the operand's first element.
        strides: one byte stride per dimension of the move.
        size: length of the axis that is looked up, at least 1.
        stride: stride of that axis in bytes.
        outside: treatment of an index that, once wrapped, is out of range.
        lookups: lookups in the address of the index itself; they are read first.

    Examples:
        >>> from anydml import moves
        >>> rows = moves.Lookup(operand=1, dtype="int64", offset=0, strides=(8,), size=5, stride=4)
        >>> print(moves.Move((3,), moves.Access(2, 0, (4,)), moves.Access(0, 0, (0,), (rows,)), 4))
        3 of 4 B: #2[4·c0] = #0[4·index1[8·c0]]
    """

    operand: int
    dtype: str
    offset: int
    strides: tuple[int, ...]
    size: int
    stride: int
    outside: OutOfRange = "clamp"
    lookups: tuple[Lookup, ...] = ()

    @property
    def is_mask(self) -> bool:
        """Whether the lookup only selects which elements move (see `unless`)."""
        return self.outside == "skip" and self.size == 1 and self.dtype == "uint8" and not self.lookups


def unless(operand: int, strides: tuple[int, ...]) -> Lookup:
    """Return a mask as a lookup: an element moves only if its byte of the mask is 0.

    The lookup's axis has one element: index 0 is in range, any other byte is out of range and skipped.

    Args:
        operand: number of the operand that holds the mask, one byte per element.
        strides: one byte stride per dimension of the move.

    Examples:
        >>> from anydml import moves
        >>> moves.unless(operand=1, strides=(1,)).outside
        'skip'
    """
    return Lookup(operand, "uint8", 0, strides, 1, 0, "skip")


class Access(NamedTuple):
    """An address for every coordinate: ``offset + Σ c·strides + Σ lookups``, in bytes from an operand's start.

    Examples:
        >>> from anydml import moves
        >>> row = moves.Access(operand=0, offset=8, strides=(4,))
        >>> moves.byte_range(row, sizes=(3,), element_size=4)
        (8, 20)
    """

    operand: int
    offset: int
    strides: tuple[int, ...]
    lookups: tuple[Lookup, ...] = ()


class Fill(NamedTuple):
    """A constant source: every element is `pattern`, repeated to the element's size.

    Examples:
        >>> from anydml import moves
        >>> print(moves.Move((3,), moves.Access(0, 0, (4,)), moves.Fill(bytes(4)), 4))
        3 of 4 B: #0[4·c0] = fill 00 00 00 00
    """

    pattern: bytes


class Move(NamedTuple):
    """``destination[a(c)] = source[b(c)]``, `element_size` bytes each, for every coordinate c of the box `sizes`.

    Without lookups in its destination, a move writes each byte at most once. With lookups, several coordinates may
    write one element: the last in row-major order wins. A move never reads bytes that it writes.

    Examples:
        >>> from anydml import moves
        >>> print(moves.Move((3,), moves.Access(1, 0, (4,)), moves.Access(0, 8, (-4,)), element_size=4))
        3 of 4 B: #1[4·c0] = #0[8 + -4·c0]
    """

    sizes: tuple[int, ...]
    destination: Access
    source: Access | Fill
    element_size: int

    @property
    def reads(self) -> Access:
        """The source of a move that is not a fill. Engines get no others (see `without_fills`)."""
        if isinstance(self.source, Fill):
            raise TypeError(f"a fill reads nothing: {self}")
        return self.source

    @property
    def bytes_written(self) -> int:
        """Bytes of the elements that the destination receives."""
        return math.prod(self.sizes) * self.element_size

    @property
    def bytes_read(self) -> int:
        """Bytes read: elements and indices, each counted once even if a dimension repeats them."""
        total = 0
        if isinstance(self.source, Access):
            used = [self.source.strides, *(lookup.strides for lookup in all_lookups(self.source.lookups))]
            elements = math.prod(n for d, n in enumerate(self.sizes) if any(strides[d] for strides in used))
            total = elements * self.element_size
        for lookup in self.all_lookups():
            used = [inner.strides for inner in all_lookups((lookup,))]
            reads = math.prod(n for d, n in enumerate(self.sizes) if any(strides[d] for strides in used))
            total += reads * np.dtype(lookup.dtype).itemsize
        return total

    @property
    def has_lookups(self) -> bool:
        """Whether either end has lookups."""
        return bool(self.destination.lookups or (isinstance(self.source, Access) and self.source.lookups))

    def all_lookups(self) -> Iterator[Lookup]:
        """Yield all lookups of both ends, the destination's first; nested ones before those that contain them."""
        yield from all_lookups(self.destination.lookups)
        if isinstance(self.source, Access):
            yield from all_lookups(self.source.lookups)

    def __str__(self) -> str:
        box = "×".join(map(str, self.sizes)) or "1"
        return f"{box} of {self.element_size} B: {_describe(self.destination)} = {_describe(self.source)}"


def permute_dimensions(move: Move, order: Sequence[int]) -> Move:
    """Permute the dimensions of a move that writes no element twice.

    Examples:
        >>> from anydml import moves
        >>> turn = moves.Move((2, 3), moves.Access(1, 0, (12, 4)), moves.Access(0, 0, (4, 8)), 4)
        >>> print(moves.permute_dimensions(turn, [1, 0]))
        3×2 of 4 B: #1[4·c0 + 12·c1] = #0[8·c0 + 4·c1]
    """

    def permute_access(access: Access) -> Access:
        lookups = tuple(permute_lookup(lookup) for lookup in access.lookups)
        return access._replace(strides=tuple(access.strides[d] for d in order), lookups=lookups)

    def permute_lookup(lookup: Lookup) -> Lookup:
        lookups = tuple(permute_lookup(inner) for inner in lookup.lookups)
        return lookup._replace(strides=tuple(lookup.strides[d] for d in order), lookups=lookups)

    source = move.source if isinstance(move.source, Fill) else permute_access(move.source)
    return Move(tuple(move.sizes[d] for d in order), permute_access(move.destination), source, move.element_size)


def all_lookups(lookups: tuple[Lookup, ...]) -> Iterator[Lookup]:
    """Yield all lookups, nested ones before those that contain them: the order in which indices can be read."""
    for lookup in lookups:
        yield from all_lookups(lookup.lookups)
        yield lookup


def byte_range(access: Access, sizes: tuple[int, ...], element_size: int) -> tuple[int, int]:
    """Return the first byte, and the byte after the last, that an access can reach, with any indices.

    Examples:
        >>> from anydml import moves
        >>> moves.byte_range(moves.Access(0, 8, (-4,)), sizes=(3,), element_size=4)
        (0, 12)
    """
    first = last = access.offset
    for size, stride in components(access, sizes):
        reach = (size - 1) * stride
        if reach < 0:
            first += reach
        else:
            last += reach
    return first, last + element_size


def components(access: Access | Lookup, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return size and stride of every variable term of an address: the box's dimensions, and the axes of lookups."""
    varying = list(zip(sizes, access.strides, strict=True))
    varying += [(lookup.size, lookup.stride) for lookup in access.lookups]
    return varying


def _describe(end: Access | Fill) -> str:
    if isinstance(end, Fill):
        return f"fill {end.pattern[:16].hex(' ')}{' …' if len(end.pattern) > 16 else ''}"
    return f"#{end.operand}[{_terms(end)}]"


def _terms(access: Access | Lookup) -> str:
    terms = [str(access.offset)] if access.offset else []
    terms += [f"{stride}·c{i}" for i, stride in enumerate(access.strides) if stride]
    for lookup in access.lookups:
        outside = "" if lookup.outside == "clamp" else f" or {lookup.outside}"
        terms.append(f"{lookup.stride}·index{lookup.operand}[{_terms(lookup)}]{outside}")
    return " + ".join(terms) or "0"
