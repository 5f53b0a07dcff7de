"""Dependencies between moves: which may run concurrently without a visible change of the result.

Two moves depend on each other if one writes bytes that the other reads or writes. This is decided from their accesses
alone; undecided pairs count as dependent.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.moves.move import Access, Lookup, Move, components, extent

EXACT_WORK = 10_000
"""Most steps of one exact overlap test."""

MOST_PAIRS = 20_000
"""Most pairs of accesses that are tested; a program with more runs its moves in sequence."""

FAKE_ADDRESS = 1 << 46
"""Address of arrays that are only tested for overlap, never read."""


class _Touch(NamedTuple):
    """The bytes that a move reads or writes in one operand."""

    move: int
    is_write: bool
    start: int
    end: int
    varying: tuple[tuple[int, int], ...]
    access: Access | Lookup
    element_size: int


def stages(moves: Sequence[Move]) -> list[list[Move]]:
    """Partition moves into stages that run in sequence; the moves of one stage may run in any order or concurrently.

    Args:
        moves: in program order; distinct operands do not overlap.

    Returns:
        The stages, each in program order. The result equals that of running all moves in sequence.

    Examples:
        >>> from anydml import moves
        >>> copy = moves.Move((3,), moves.Access(1, 0, (4,)), moves.Access(0, 0, (4,)), 4)
        >>> then = moves.Move((3,), moves.Access(2, 0, (4,)), moves.Access(1, 0, (4,)), 4)
        >>> len(moves.stages([copy, then]))
        2
    """
    if len(moves) < 2:
        return [[*moves]] if moves else []
    if _is_plain(moves):
        return [[*moves]]
    try:
        before = _dependencies(moves)
    except _TooManyError:
        return [[move] for move in moves]
    levels: list[int] = []
    for number in range(len(moves)):
        levels.append(1 + max((levels[earlier] for earlier in before[number]), default=-1))
    groups: list[list[Move]] = [[] for _ in range(1 + max(levels))]
    for level, move in zip(levels, moves, strict=True):
        groups[level].append(move)
    return groups


def reads_what_it_writes(move: Move) -> bool:
    """Whether a move may read bytes that it writes."""
    touches = _touches(0, move)
    writes = [touch for touch in touches if touch.is_write]
    return any(
        _may_meet(write, touch)
        for write in writes
        for touch in touches
        if not touch.is_write and touch.access.operand == write.access.operand
    )


def may_read_overwritten(moves: Sequence[Move], staying: Collection[int], source: int, target: int) -> bool:
    """Whether, if two operands share their memory, a move may read bytes that it or an earlier move overwrites.

    Args:
        moves: in program order.
        staying: numbers of moves that would write bytes to their own place.
        source: the operand that is read.
        target: the operand that is written.
    """
    touches = [
        touch
        for number, move in enumerate(moves)
        if 0 not in move.sizes
        for touch in _touches(number, move)
        if touch.access.operand == (target if touch.is_write else source) and not (touch.is_write and number in staying)
    ]
    try:
        pairs = _pairs(touches)
    except _TooManyError:
        return True
    for first, second in pairs:
        write, read = (first, second) if first.is_write else (second, first)
        if write.is_write and not read.is_write and write.move <= read.move and _may_meet(write, read):
            return True
    return False


class _TooManyError(Exception):
    """There are more than `MOST_PAIRS` pairs to test."""


def _is_plain(moves: Sequence[Move]) -> bool:
    """Whether every move writes a different operand, which no move reads: the common case, decided quickly."""
    written = {move.destination.operand for move in moves}
    if len(written) != len(moves):
        return False
    read = set()
    for move in moves:
        if isinstance(move.source, Access):
            read.add(move.source.operand)
        if move.has_lookups:
            read.update([lookup.operand for lookup in move.every_lookup()])
    return written.isdisjoint(read)


def _touches(number: int, move: Move) -> list[_Touch]:
    sizes, to, source, element_size = move

    def touch(access: Access | Lookup, is_write: bool, size: int) -> _Touch:
        varying = tuple((n, stride) for n, stride in components(access, sizes) if n > 1 and stride)
        plain = Access(access.operand, access.offset, access.strides, access.lookups)
        return _Touch(number, is_write, *extent(plain, sizes, size), varying, access, size)

    result = [touch(to, True, element_size)]
    if isinstance(source, Access):
        result.append(touch(source, False, element_size))
    result += [touch(lookup, False, np.dtype(lookup.dtype).itemsize) for lookup in move.every_lookup()]
    return result


def _dependencies(moves: Sequence[Move]) -> dict[int, set[int]]:
    """Return, for each move, the earlier moves that it depends on."""
    by_operand: dict[int, list[_Touch]] = defaultdict(list)
    for number, move in enumerate(moves):
        if 0 not in move.sizes and move.element_size:
            for touch in _touches(number, move):
                by_operand[touch.access.operand].append(touch)
    before: dict[int, set[int]] = defaultdict(set)
    for touches in by_operand.values():
        writes = sum(touch.is_write for touch in touches)
        if not writes or len(touches) == 1 or (writes == len(touches) and _are_apart(touches)):
            continue
        for first, second in _pairs(touches):
            if (first.is_write or second.is_write) and first.move != second.move and _may_meet(first, second):
                before[max(first.move, second.move)].add(min(first.move, second.move))
    return before


def _are_apart(touches: Sequence[_Touch]) -> bool:
    """Whether the touches are disjoint columns of one pitch, like the parts of a join; no pairs are tested."""
    pitch = math.gcd(*(stride for touch in touches for _, stride in touch.varying))
    if not pitch:
        return False
    columns = sorted((touch.start % pitch, touch.element_size) for touch in touches)
    ends = [start + size for start, size in columns]
    starts = [start for start, _ in columns[1:]] + [columns[0][0] + pitch]
    return all(end <= start for end, start in zip(ends, starts, strict=True))


def _pairs(touches: Sequence[_Touch]) -> list[tuple[_Touch, _Touch]]:
    """Return candidate pairs: those whose extents overlap, or, if these are too many, whose columns overlap."""
    for candidates in (_near(touches), _in_one_column(touches)):
        pairs = [*itertools.islice(candidates, MOST_PAIRS + 1)]
        if len(pairs) <= MOST_PAIRS:
            return pairs
    raise _TooManyError


def _near(touches: Sequence[_Touch]) -> Iterator[tuple[_Touch, _Touch]]:
    """Yield pairs whose extents, from first to last byte, overlap."""
    return _overlapping([(touch.start, touch.end, touch) for touch in touches])


def _in_one_column(touches: Sequence[_Touch]) -> Iterator[tuple[_Touch, _Touch]]:
    """Yield pairs whose columns, the addresses modulo the common pitch, overlap."""
    pitch = math.gcd(*(stride for touch in touches for _, stride in touch.varying))
    columns = []
    for touch in touches:
        start = touch.start % pitch if pitch else 0
        end = start + min(touch.element_size, pitch)
        columns.append((start, max(end, start + 1), touch))
        if end > pitch:
            # It wraps to the beginning of the next row.
            columns.append((start - pitch, end - pitch, touch))
    return _overlapping(columns)


def _overlapping(spans: list[tuple[int, int, _Touch]]) -> Iterator[tuple[_Touch, _Touch]]:
    active: list[tuple[int, _Touch]] = []
    for start, end, touch in sorted(spans, key=lambda span: span[0]):
        active = [each for each in active if each[0] > start]
        yield from ((other, touch) for _, other in active)
        active.append((end, touch))


def _may_meet(first: _Touch, second: _Touch) -> bool:
    """Whether two touches of one operand may share a byte; undecided ones may."""
    if first.end <= second.start or second.end <= first.start:
        return False
    pitch = math.gcd(*(stride for touch in (first, second) for _, stride in touch.varying))
    if not pitch:
        return True
    gap = (second.start - first.start) % pitch
    if gap >= first.element_size and gap + second.element_size <= pitch:
        return False
    try:
        return bool(np.shares_memory(_view(first), _view(second), max_work=EXACT_WORK))  # type: ignore[arg-type]  # any bound is allowed
    except (np.exceptions.TooHardError, ValueError):
        return True


class _Bytes:
    """Array interface of bytes that are only tested for overlap."""

    __slots__ = ("__array_interface__",)

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _view(touch: _Touch) -> np.ndarray[Any, Any]:
    interface = {
        "version": 3,
        "data": (FAKE_ADDRESS + touch.access.offset, True),
        "shape": (*(size for size, _ in touch.varying), touch.element_size),
        "strides": (*(stride for _, stride in touch.varying), 1),
        "typestr": "|u1",
    }
    return np.asarray(_Bytes(interface))
