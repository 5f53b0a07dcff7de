"""Parts of a launch: moves of one rank, in units of vectors.

A simplified move's last dimension becomes the *columns* of the kernel's tiles, the others its *rows*. The contiguous
run of an element is an additional dimension if it is longer than a vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anydml.engines.cuda.schedule import source_access
from anydml.moves import Lookup, Move
from anydml.moves.move import all_lookups

MAX_VECTOR = 16
"""Maximum bytes of a load or store of one thread."""

MIN_LONG_RUN = 32
"""Runs of fewer vectors share a tile's columns."""

Addresses = Sequence[int] | Mapping[int, int]
"""Addresses of the operands' first elements, by number."""


@dataclass(frozen=True, slots=True)
class Part:
    """A move in units of vectors, from which the kernel's fields are derived.

    Attributes:
        sizes: sizes of the row dimensions, then the number of columns.
        inner: columns per contiguous run, mostly 1; the last stride is that between runs.
        to, source: operand, offset of the first vector in bytes, and one stride per size.
        lookups: lookups of both ends, in the order of `all_lookups`. Their `strides` are in index loads, and their
            `stride` in vectors, or in loads of the lookup that contains them.
        is_run: whether the columns form one element.
    """

    sizes: tuple[int, ...]
    to: tuple[int, int, tuple[int, ...]]
    source: tuple[int, int, tuple[int, ...]]
    lookups: tuple[Lookup, ...]
    inner: int = 1
    is_run: bool = False

    @property
    def columns(self) -> int:
        """Number of vectors per row."""
        return self.sizes[-1]

    @property
    def rows(self) -> int:
        """Number of rows of vectors, which is the product of all sizes but the last."""
        return math.prod(self.sizes[:-1])


class Alignment:
    """The widest loads and stores that a launch's moves, and then its addresses, allow."""

    __slots__ = ("_ends", "_indices", "_unit")

    def __init__(self, moves: Sequence[Move]) -> None:
        ends = [side for move in moves for side in (move.destination, source_access(move))]
        strides = {
            stride
            for move in moves
            for side in (move.destination, source_access(move))
            for size, stride in zip(move.sizes, side.strides, strict=True)
            if size > 1
        }
        steps = {lookup.stride for side in ends for lookup in side.lookups if lookup.size > 1}
        self._unit = math.gcd(MAX_VECTOR, *{move.element_size for move in moves}, *strides, *steps)
        self._ends = sorted({(side.operand, side.offset % MAX_VECTOR) for side in ends})
        self._indices = [
            (lookup.operand, lookup.offset, math.gcd(index_bytes(lookup), *_steps(lookup, moves[0].sizes)))
            for lookup in moves[0].all_lookups()
        ]

    def vector(self, addresses: Addresses) -> int:
        """Return the largest power of two, up to 16 bytes, that divides every run, stride and address of the moves."""
        return math.gcd(self._unit, *(addresses[operand] + offset for operand, offset in self._ends))

    def loads(self, addresses: Addresses) -> tuple[int, ...]:
        """Return the bytes per load of each lookup: the whole index, or less if it is not aligned."""
        return tuple(math.gcd(unit, addresses[operand] + offset) for operand, offset, unit in self._indices)


def _steps(lookup: Lookup, sizes: Sequence[int]) -> set[int]:
    """Return the strides in bytes between indices that a lookup reads."""
    steps = {stride for size, stride in zip(sizes, lookup.strides, strict=True) if size > 1}
    return steps | {inner.stride for inner in lookup.lookups if inner.size > 1}


def index_bytes(lookup: Lookup) -> int:
    """Return the bytes of one index."""
    return np.dtype(lookup.dtype).itemsize


def targets(move: Move) -> tuple[int, ...]:
    """Return, for each lookup, the address it is added to: 0 for the destination, 1 the source, 2 + n lookup n."""
    result: list[int] = []

    def add(lookups: Sequence[Lookup], target: int) -> None:
        for lookup in lookups:
            add(lookup.lookups, len(result) + len([*all_lookups(lookup.lookups)]) + 2)
            result.append(target)

    add(move.destination.lookups, 0)
    add(source_access(move).lookups, 1)
    return tuple(result)


def cut(moves: Sequence[Move], vector: int, loads: Sequence[int]) -> tuple[Part, ...]:
    """Convert moves of one rank to vectors of `vector` bytes, with index loads of `loads` bytes."""
    has_runs = any(move.element_size > vector for move in moves)
    parts = [_cut(move, vector, loads, has_runs or not move.sizes) for move in moves]
    return tuple(_flatten(part) for part in parts) if _is_flattened(parts) else tuple(parts)


def _is_flattened(parts: Sequence[Part]) -> bool:
    """Whether rows are short runs of one odd length, which would leave lanes of a tile idle."""
    runs = {part.columns for part in parts}
    (run, *other_runs) = runs
    are_runs = all(part.to[2][-1] == part.source[2][-1] == 1 and not part.lookups for part in parts)
    return are_runs and not other_runs and 2 < run < MIN_LONG_RUN and run & (run - 1) != 0 and len(parts[0].sizes) > 1


def _flatten(part: Part) -> Part:
    """Merge the last two sizes."""

    def without_last(end: tuple[int, int, tuple[int, ...]]) -> tuple[int, int, tuple[int, ...]]:
        return end[0], end[1], end[2][:-1]

    sizes = (*part.sizes[:-2], part.sizes[-2] * part.columns)
    return Part(sizes, without_last(part.to), without_last(part.source), part.lookups, part.columns)


def _cut(move: Move, vector: int, loads: Sequence[int], has_run: bool) -> Part:
    run = (move.element_size // vector,) if has_run else ()

    def in_units(strides: Sequence[int], unit: int, last: int) -> tuple[int, ...]:
        steps = [stride // unit if size > 1 else 0 for size, stride in zip(move.sizes, strides, strict=True)]
        return (*steps, *((last,) if has_run else ()))

    units = (vector, vector, *loads)
    lookups = tuple(
        lookup._replace(
            strides=in_units(lookup.strides, load, 0),
            stride=lookup.stride // units[target],
            lookups=(),
        )
        for lookup, load, target in zip(move.all_lookups(), loads, targets(move), strict=True)
    )
    to, source = move.destination, source_access(move)
    return Part(
        move.sizes + run,
        (to.operand, to.offset, in_units(to.strides, vector, 1)),
        (source.operand, source.offset, in_units(source.strides, vector, 1)),
        lookups,
        is_run=has_run,
    )
