"""Plans of launches: vectors, tiles, fields and types, for a known alignment of the operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anydml.engines.cuda.fields import FIRST_TILE_FIELD, Fields, Kind, columns_of, encode, worthwhile_constants
from anydml.engines.cuda.schedule import FINDINGS, WINNERS, LastWriteTable, Launch
from anydml.engines.cuda.tiles import Tiles, tiles
from anydml.engines.cuda.vector_moves import Part, cut, index_bytes, targets
from anydml.moves import Lookup
from anydml.moves.move import all_lookups
from anydml.text import count_noun

LIMIT = 2**31
"""Offsets and row numbers below this have 32 bits."""

LOOKUP_NUMBERS = 6
"""Constants per lookup of the kernel; listed in `kernel.py`."""

CLAMPED, SKIPPED, ONLY_OUTSIDE = range(3)
"""The kernel's treatment of an index out of range: clamp it; skip the element; skip all elements but these."""

MIN_SPECIALIZED_BYTES = 1 << 20
"""Bytes of work from which on kernels have more constants; smaller work shares kernels among sizes."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything that a launch needs, except addresses.

    Attributes:
        vector: bytes per vector.
        parts: the moves in vectors.
        tiles: the division of work among programs.
        fields: the kernel's description of the parts.
        lookups: LOOKUP_NUMBERS constants of the kernel per lookup.
        winners: the table of last writers, if several coordinates may write one element.
        wide_offsets, wide_rows: whether 32 bits do not suffice.
    """

    vector: int
    parts: tuple[Part, ...]
    tiles: Tiles
    fields: Fields
    lookups: tuple[int, ...]
    winners: LastWriteTable | None
    wide_offsets: bool
    wide_rows: bool

    @property
    def word(self) -> int:
        """Bytes per word: a vector of 16 bytes is two words."""
        return min(self.vector, 8)

    @property
    def lanes(self) -> int:
        """Words per vector."""
        return self.vector // self.word

    @property
    def search(self) -> int:
        """The way in which a program finds its part: 0 by division, 1 among the arguments, 2 by bisecting the table."""
        if self.tiles.is_even:
            return 0
        return 2 if self.fields.shape[3 * FIRST_TILE_FIELD] == Kind.TABLE else 1

    @property
    def is_flat(self) -> bool:
        """Whether a tile's lanes are assigned to threads row by row, whatever the addresses.

        A matrix of lanes has cheaper rows, and is transposed on the way if the source is contiguous along columns.
        """
        return not all(_has_runs(part) or _is_transposed(part) for part in self.parts)

    @property
    def way(self) -> str:
        """How the kernel gets its parts, and why, as a text."""
        count, kinds = len(self.parts), self.fields.kinds
        if self.winners and self.winners.only_records:
            if self.winners.operand == FINDINGS:
                return "looks for an index that is out of range"
            return f"finds which coordinate is the last to write each of {count_noun(self.winners.entries, 'element')}"
        if self.parts[0].to[0] == WINNERS:
            return "clears the table of who writes last"
        if self.parts[0].to[0] == FINDINGS:
            return "clears the table of indices that are out of range"
        if self.winners:
            return f"one move, by the last coordinates that write each of {count_noun(self.winners.entries, 'element')}"
        parts = "equal parts" if self._has_equal_parts else "unequal parts"
        if count == 1:
            return "one move: no pointers, no table"
        shares = len({part.to[0] for part in self.parts}) == len({part.source[0] for part in self.parts}) == 1
        block = f"{count} {parts} of one block" if shares else f"{count} {parts}"
        if Kind.TABLE in kinds:
            size = len(self.fields.columns)
            if self.fields.has_addresses_in_table:
                return (
                    f"{block}: too many to pass by value, one table of "
                    f"{count_noun(size, 'column')}, uploaded once per binding"
                )
            return (
                f"{block}: too many to pass by value, one table of "
                f"{count_noun(size, 'column')}, uploaded once for all bindings"
            )
        if Kind.BY_VALUE in kinds:
            return f"{block}: " + ("pointers by value" if self._has_equal_parts else "pointers and sizes by value")
        return f"{block}: evenly spaced, no pointers, no table"

    @property
    def _has_equal_parts(self) -> bool:
        return len({part.sizes for part in self.parts}) == 1

    def __str__(self) -> str:
        tile = f"{self.tiles.rows} × {self.tiles.columns} vectors of {self.vector} B"
        together = f", {self.tiles.group} parts together" if self.tiles.group > 1 else ""
        bits = 64 if self.wide_offsets else 32
        return f"{self.way}; {count_noun(self.tiles.programs, 'program')} of {tile}{together}; {bits}-bit offsets"


def plan(launch: Launch, vector: int, loads: tuple[int, ...]) -> LaunchPlan:
    """Plan a launch.

    Args:
        launch: a launch of `launches`.
        vector: bytes per vector, from `Alignment.vector`.
        loads: bytes per index load of each lookup, from `Alignment.loads`.
    """
    moves, winners = launch
    parts = cut(moves, vector, loads)
    shared = tiles(parts, vector)
    columns = columns_of(parts, shared, vector, winners)
    total = sum(move.bytes_written for move in moves)
    lanes = max(1, vector // 8)
    target_numbers = targets(moves[0])
    reach = max(max(_offset_bounds(part, shared.columns, target_numbers)) for part in parts)
    if winners:
        reach = max(reach, 2 * winners.entries if not winners.in_rounds else LIMIT)
    numbers = tuple(
        number
        for n, lookup in enumerate(moves[0].all_lookups())
        for number in (
            int(lookup.dtype.startswith("int")),
            index_bytes(lookup),
            loads[n],
            int(_varies_along_columns(lookup, parts[0])),
            target_numbers[n],
            _range_treatment(lookup, target_numbers[n], winners),
        )
    )
    return LaunchPlan(
        vector,
        parts,
        shared,
        encode(columns, worthwhile_constants(parts[0], vector) if total >= MIN_SPECIALIZED_BYTES else {}),
        numbers,
        winners,
        wide_offsets=lanes * reach >= LIMIT,
        wide_rows=max(part.rows for part in parts) + shared.rows >= LIMIT,
    )


def _has_runs(part: Part) -> bool:
    """Whether columns are contiguous in source and destination."""
    is_looked_up = any(lookup.strides[-1] for lookup in part.lookups)
    return part.inner == 1 and not is_looked_up and part.to[2][-1] == part.source[2][-1] == 1


def _is_transposed(part: Part) -> bool:
    """Whether rows are contiguous in the source, and columns in the destination."""
    return len(part.sizes) > 1 and part.to[2][-1] == 1 and part.source[2][-2] == 1


def _varies_along_columns(lookup: Lookup, part: Part) -> bool:
    """Whether a lookup reads a different index in every column."""
    size = 1 if part.is_run or not lookup.strides else part.sizes[-1]
    return size > 1 and any(inner.strides[-1] for inner in all_lookups((lookup,)))


def _range_treatment(lookup: Lookup, target: int, winners: LastWriteTable | None) -> int:
    """Return the kernel's treatment of an index out of range; indices that are refused were checked before."""
    if winners and winners.operand == FINDINGS and target == 1:
        return ONLY_OUTSIDE
    return SKIPPED if lookup.outside == "skip" else CLAMPED


def _offset_bounds(part: Part, columns: int, target_numbers: Sequence[int]) -> Iterator[int]:
    """Yield bounds of the offsets within a tile, in vectors or index loads, from the tile's pointers on."""
    sizes = (*part.sizes[:-1], columns + 1)
    by_lookups = [0] * (2 + len(target_numbers))
    for lookup, target_number in zip(part.lookups, target_numbers, strict=True):
        by_lookups[target_number] += lookup.size * abs(lookup.stride)
    yield columns + _span(sizes, part.to[2]) + by_lookups[0]
    yield columns + _span(sizes, part.source[2]) + by_lookups[1]
    for lookup, lookup_goal in zip(part.lookups, by_lookups[2:], strict=True):
        yield _span(sizes, lookup.strides) + 8 + lookup_goal
        yield lookup.size


def _span(sizes: Sequence[int], strides: Sequence[int]) -> int:
    return sum(size * abs(stride) for size, stride in zip(sizes, strides, strict=True))
