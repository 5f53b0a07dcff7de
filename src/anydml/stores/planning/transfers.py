"""Transfers: requests that read bytes of a file into a buffer, or write them from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from anydml.moves import Access, Move, byte_range
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.cutting import Side, end_of, with_end
from anydml.stores.running.scattered_io import LEFT_OUT, MAX_RUNS_AT_ONCE, NEAR, can_scatter

LINE = 64
"""Bytes of a line of the caches."""

MAX_RUNS_OF_BLOCK = 1 << 17
"""Maximum number of runs that a block requests: so many offsets and lengths take 3 MiB."""


class TooManyRunsError(Exception):
    """A block needs more than `MAX_RUNS_OF_BLOCK` runs; a `share` of the block would not."""

    def __init__(self, runs: int) -> None:
        super().__init__(runs)
        self.share = MAX_RUNS_OF_BLOCK / runs


DIRECT = 16 << 10
"""Bytes of a request from which it is read straight into the write buffer, rather than moved there."""

SCATTERED = 256
"""Minimum bytes of a run from which a scattered request of the system is faster than a move."""


LONG_SCATTERED_READ = 2 << 20
"""Minimum bytes of a scattered read that is cut off at `MAX_RUNS_AT_ONCE` runs; else one read into a buffer is
better."""


class Transfer(NamedTuple):
    """Requests, each of one run or of several that are contiguous in the file.

    Attributes:
        operand: number of the operand whose file is read or written.
        file_offsets: offset of each request, in bytes from the start of the operand.
        buffer_offsets: offset of each run in the buffer, request by request; `LEFT_OUT` if the run is not kept.
        lengths: bytes of each run.
        is_direct: whether the buffer is that of the other end, because no move is needed in between.
        counts: runs of each request; None for one.
    """

    operand: int
    file_offsets: Numbers
    buffer_offsets: Numbers
    lengths: Numbers
    is_direct: bool = False
    counts: Numbers | None = None

    @property
    def sizes(self) -> Numbers:
        """Bytes per request."""
        if self.counts is None or not self.counts.size:
            return self.lengths
        sizes: Numbers = np.add.reduceat(self.lengths, np.cumsum(self.counts) - self.counts)
        return sizes

    @property
    def run_offsets(self) -> Numbers:
        """Offset of each run in the file."""
        if self.counts is None:
            return self.file_offsets
        before = np.cumsum(self.lengths) - self.lengths
        offsets: Numbers = before + np.repeat(
            self.file_offsets - before[np.cumsum(self.counts) - self.counts], self.counts
        )
        return offsets

    @property
    def bytes(self) -> int:
        """Total bytes."""
        return int(self.lengths.sum())

    @property
    def kept_bytes(self) -> int:
        """Bytes of runs that are kept."""
        return int(self.lengths.sum(where=self.buffer_offsets != LEFT_OUT))


def transfer_of(
    operand: int, file_offsets: Numbers, buffer_offsets: Numbers, length: int, is_direct: bool = False, runs: int = 1
) -> Transfer:
    """Return a `Transfer` in which all runs have one length, and all requests one number of runs."""
    counts = np.full(file_offsets.size, runs, np.int64) if runs > 1 else None
    lengths = np.full(buffer_offsets.size, length, np.int64)
    return Transfer(operand, file_offsets, buffer_offsets, lengths, is_direct, counts)


def are_apart(file_offsets: Numbers, lengths: Numbers) -> Array:
    """Whether each sorted run begins a request: the run before is far, or the system supports one run per request."""
    gaps = file_offsets[1:] - (file_offsets + lengths)[:-1]
    return np.concatenate([np.ones(min(1, file_offsets.size), bool), (gaps < 0) | (gaps > NEAR) | (not can_scatter())])


def scattered_reads(operand: int, file_offsets: Numbers, buffer_offsets: Numbers, lengths: Numbers) -> Transfer:
    """Return reads of runs, in the order of their offsets in the file, straight into the buffer of the other end.

    Runs that are near each other are one request, where the system has such.
    """
    begins, gaps = are_apart(file_offsets, lengths), file_offsets[1:] - (file_offsets + lengths)[:-1]
    if begins.all():
        return Transfer(operand, file_offsets, buffer_offsets, lengths, True)
    between = np.flatnonzero(~begins[1:] & (gaps > 0)) + 1
    counts = np.diff(np.append(np.flatnonzero(np.insert(begins, between, False)), begins.size + between.size))
    runs = np.insert(buffer_offsets, between, LEFT_OUT), np.insert(lengths, between, gaps[between - 1])
    return Transfer(operand, file_offsets[begins], *runs, True, counts)


def merge_adjacent_writes(writes: Iterable[Transfer]) -> Iterator[Transfer]:
    """Merge direct writes that are adjacent in a file into one request, if the system supports such requests."""
    by_operand = dict[int, list[Transfer]]()
    for write in writes:
        by_operand.setdefault(write.operand, []).append(write)
    for operand, operand_writes in by_operand.items():
        if len(operand_writes) == 1 or not can_scatter():
            yield from operand_writes
            continue
        file = np.concatenate([write.run_offsets for write in operand_writes])
        buffer, lengths = (np.concatenate([write[k] for write in operand_writes]) for k in (2, 3))
        order = np.argsort(file, kind="stable")
        file, buffer, lengths = file[order], buffer[order], lengths[order]
        begins = np.flatnonzero(np.concatenate([[True], file[1:] != (file + lengths)[:-1]]))
        yield Transfer(operand, file[begins], buffer, lengths, True, np.diff(np.append(begins, file.size)))


def direct_requests(move: Move, side: Side) -> Transfer | None:
    """Return requests for one end of a move straight into the buffer of the other end; None if they would be short."""
    end, opposite = end_of(move, side), end_of(move, "source" if side == "destination" else "destination")
    length = move.element_size
    if length < (SCATTERED if can_scatter() else DIRECT):
        return None
    sizes, strides = move.sizes, tuple(map(abs, end.strides))
    varying = [k for k in sorted(range(len(sizes)), key=lambda k: -strides[k]) if sizes[k] > 1]
    runs, outer = 1, [*varying]
    while outer and can_scatter() and strides[outer[-1]] == length * runs:
        runs *= sizes[outer.pop()]
    if length * runs < DIRECT:
        return None
    if side == "source" and runs > MAX_RUNS_AT_ONCE and length * MAX_RUNS_AT_ONCE < LONG_SCATTERED_READ:
        return None
    descending = [k for k in varying if end.strides[k] < 0]
    if descending:
        end, opposite = _reverse(end, sizes, descending), _reverse(opposite, sizes, descending)
    return transfer_of(end.operand, _offsets(end, sizes, outer), _offsets(opposite, sizes, varying), length, True, runs)


def _reverse(end: Access, sizes: Sequence[int], dimensions: Sequence[int]) -> Access:
    """Return the end with some dimensions reversed."""
    strides = tuple(-stride if k in dimensions else stride for k, stride in enumerate(end.strides))
    offset = end.offset + sum((sizes[k] - 1) * end.strides[k] for k in dimensions)
    return end._replace(offset=offset, strides=strides)


def combined_requests(moves: Sequence[Move], side: Side, gap: int | None) -> tuple[list[Transfer], list[Move], int]:
    """Return requests for one end of several moves, and the moves with that end in a buffer.

    Moves whose bytes interleave share a request.

    Args:
        moves: the moves; the other end of each may lie in a buffer already.
        side: the end of the moves whose bytes are requested.
        gap: largest number of unneeded bytes between two runs of a read; None for writes.

    Returns:
        The requests, the moves in the same order, and the size of the buffer in bytes.

    Raises:
        TooManyRunsError: there are more runs of bytes than a block may have.
    """
    transfers: list[Transfer] = []
    staged_moves = [*moves]
    used = runs = 0
    for cluster in _clusters(moves, side):
        ends = [end_of(moves[k], side) for k in cluster]
        spans = [byte_range(end, moves[k].sizes, moves[k].element_size) for end, k in zip(ends, cluster, strict=True)]
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        if len(cluster) > 1 and _is_worth_it([moves[k] for k in cluster], side, high - low, gap):
            first, second = np.array([low], np.int64), np.array([used], np.int64)
            transfers.append(transfer_of(ends[0].operand, first, second, high - low))
            for k, end in zip(cluster, ends, strict=True):
                staged_moves[k] = with_end(moves[k], side, end._replace(offset=end.offset - low + used))
            used += round_to_cache_lines(high - low)
            continue
        for k in cluster:
            transfer, staged_moves[k], used = staged_requests(moves[k], side, gap or 0, used)
            transfers.append(transfer)
            runs += transfer.buffer_offsets.size
            if runs > MAX_RUNS_OF_BLOCK:
                raise TooManyRunsError(runs)
    return transfers, staged_moves, used


def _clusters(moves: Sequence[Move], side: Side) -> list[list[int]]:
    """Return numbers of moves, grouped by overlapping or adjacent ranges of bytes."""
    spans = []
    for k, move in enumerate(moves):
        end = end_of(move, side)
        spans.append((end.operand, *byte_range(end, move.sizes, move.element_size), k))
    clusters: list[list[int]] = []
    last = (-1, 0)
    for operand, start, stop, k in sorted(spans):
        if clusters and operand == last[0] and start <= last[1]:
            clusters[-1].append(k)
            last = operand, max(stop, last[1])
        else:
            clusters.append([k])
            last = operand, stop
    return clusters


def _is_worth_it(moves: Sequence[Move], side: Side, span: int, gap: int | None) -> bool:
    """Whether one request for all bytes of the moves is better than several."""
    used_bytes = 0
    for move in moves:
        steps = zip(move.sizes, end_of(move, side).strides, strict=True)
        used_bytes += move.element_size * math.prod(size for size, stride in steps if stride)
    return span == used_bytes if gap is None else span <= used_bytes + used_bytes // 4 + gap


def staged_requests(move: Move, side: Side, gap: int, base: int) -> tuple[Transfer, Move, int]:
    """Return requests for one end of a move, and the move with that end in a buffer.

    Args:
        move: the move; its other end may lie in a buffer already.
        side: the end whose bytes are requested.
        gap: largest number of unneeded bytes between two runs of a read; 0 for writes.
        base: start of the free part of the buffer.

    Returns:
        The requests, the move, and the start of the free part after it.
    """
    end = end_of(move, side)
    low, length, outer = contiguous(end, move, gap)
    forwards = Access(end.operand, low, tuple(map(abs, end.strides)))
    strides, step = [*end.strides], length
    for k in reversed(outer):
        strides[k] = step if end.strides[k] > 0 else -step
        step *= move.sizes[k]
    offset = base + sum((n - 1) * -s for n, s in zip(move.sizes, strides, strict=True) if s < 0 and n > 1)
    packed = Access(end.operand, base, tuple(map(abs, strides)))
    first, second = _offsets(forwards, move.sizes, outer), _offsets(packed, move.sizes, outer)
    placed_move = with_end(move, side, Access(end.operand, offset, tuple(strides)))
    used = base + round_to_cache_lines(length * math.prod(move.sizes[k] for k in outer))
    return transfer_of(end.operand, first, second, length), placed_move, used


def round_to_cache_lines(size: int) -> int:
    """Return a size rounded up to whole lines of the caches."""
    return -(-size // LINE) * LINE


def _offsets(access: Access, sizes: Sequence[int], dimensions: Sequence[int]) -> Numbers:
    """Return the offsets of the coordinates along some dimensions, the first of which is the outermost.

    Raises:
        TooManyRunsError: there are too many.
    """
    count = math.prod(sizes[k] for k in dimensions)
    if count > MAX_RUNS_OF_BLOCK:
        raise TooManyRunsError(count)
    return coordinate_offsets(access.offset, [sizes[k] for k in dimensions], [access.strides[k] for k in dimensions])


def contiguous(end: Access, move: Move, gap: int) -> tuple[int, int, list[int]]:
    """Return the runs of bytes that one end of a move touches.

    Args:
        end: the end of the move.
        move: the move.
        gap: bytes between two runs along a dimension that are still one.

    Returns:
        The first byte, the length of a run, and the dimensions over which runs are repeated, the outermost first.
    """
    length, outer = move.element_size, list[int]()
    steps = [(abs(step), k) for k, (n, step) in enumerate(zip(move.sizes, end.strides, strict=True)) if step and n > 1]
    for step, k in sorted(steps):
        if not outer and step - length <= gap:
            length += (move.sizes[k] - 1) * step
        else:
            outer.append(k)
    low = end.offset + sum((n - 1) * s for n, s in zip(move.sizes, end.strides, strict=True) if s < 0 and n > 1)
    return low, length, outer[::-1]


def coordinate_offsets(offset: int, sizes: Sequence[int], strides: Sequence[int]) -> Numbers:
    """Return the offset of each coordinate, in C order."""
    offsets = np.array([offset], np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return offsets
