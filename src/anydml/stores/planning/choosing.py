"""The choice of the fastest cut of a group of moves, by an estimate, within the memory budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from anydml.stores.formats.chunk_grid import Box
from anydml.stores.planning.block_list import Block
from anydml.stores.planning.block_shapes import halves, middle
from anydml.stores.planning.blocks import BlockIO, Cut, MoveGroup, block_io
from anydml.stores.planning.cutting import Side, end_of
from anydml.stores.planning.transfers import TooManyRunsError

GAPS = (0, 4 << 10, 64 << 10)
"""The gaps, in unneeded bytes between two runs of a request, that are tried."""

WIDTHS = tuple(1 << k for k in range(10, 21, 1))
"""The bytes per row of a block that are tried."""

LONG_BLOCK_BYTES = 8 << 20
"""Bytes of a block beyond which longer requests gain little, even on slow mounts."""

CACHE_BLOCK_BYTES = 4 << 20
"""Bytes of a block that is moved in a cache, and of a read that is long enough on slow mounts."""

MAX_LONG_BLOCK = 40 << 20
"""Maximum size in bytes of a block that is enlarged for longer requests."""

MIN_LENGTHENING = 1.2
"""Minimum factor by which enlarging a block must lengthen requests."""

CACHED_WRITE_BYTES = 8 << 20
"""Bytes of a block that is still in a cache when it is written."""

MAX_PITCHES = 6
"""Maximum number of pitches that are tried for each side."""

SECONDS_PER_REQUEST = 5e-6
"""Estimated seconds per request; of this and the following constants, only the ratios matter."""

SECONDS_PER_MOVE = 50e-6
"""Estimated seconds per move."""

SECONDS_PER_BLOCK = 300e-6
"""Estimated seconds per block."""

SECONDS_PER_ROW = 30e-9
"""Estimated seconds per row."""

SECONDS_PER_BYTE = 0.4e-9
"""Estimated seconds per byte that is read, moved or written."""

COLD_SECONDS_PER_BYTE = 0.15e-9
"""Estimated further seconds per byte that is read or written, if the buffers do not fit into a cache."""


MANY_MOVES = 1024
"""Number of moves of the examined blocks after which the search ends, once all gaps were tried."""

GOOD_ENOUGH = 3.5 * SECONDS_PER_BYTE
"""Seconds per byte if all bytes are read, moved and written once by long requests; short elements add to it."""


def choose_cut(group: MoveGroup, max_bytes: int, widening: int) -> Cut | None:
    """Return the best cut of a group into blocks of at most `max_bytes` bytes; None if no cut fits.

    Blocks hold up to `widening` bytes for each that is read from a file. The search ends early at a cut that is hardly
    slower than one pass over all bytes, or if blocks have too many moves.
    """
    if group.windows is not None:
        return Cut("source", 0, 0, 1, group.windows.width)
    best: tuple[float, Cut] | None = None
    examined_moves = 0
    for cut, round_number in _candidates(group, max_bytes):
        if best is not None and examined_moves >= MANY_MOVES and round_number:
            break
        cost = _cost(group, cut, max_bytes)
        io = _middle_io(group, cut, group.operands(cut.side)[0])
        examined_moves += len(io.moves)
        if cost is not None and (best is None or cost < best[0]):
            best = cost, cut
            if cost <= GOOD_ENOUGH + SECONDS_PER_BYTE * _bytes_in_short_elements(io) / max(
                1, sum(write.bytes for write in io.writes)
            ):
                break
    return best and _lengthen(group, best[1], max_bytes, widening)


def _lengthen(group: MoveGroup, cut: Cut, max_bytes: int, widening: int) -> Cut:
    """Return a cut into larger blocks if that makes short requests longer; blocks with moves stay in the cache."""
    operand = group.operands(cut.side)[0]
    io, lengthened, max_long = _middle_io(group, cut, operand), cut, widening * MAX_LONG_BLOCK
    while not io.moves and _mean_transfer_bytes(io) < widening * CACHE_BLOCK_BYTES:
        lengthened = (
            lengthened._replace(height=2 * lengthened.height)
            if cut.pitch
            else lengthened._replace(width=2 * lengthened.width)
        )
        if lengthened.height * lengthened.width > max_long:
            break
        try:
            longer = _middle_io(group, lengthened, operand)
        except TooManyRunsError:
            break
        # If rows are too many for one scattered read, they are moved, which needs a second buffer.
        if longer.buffer_bytes > (min(max_long, max_bytes) if longer.moves else max_bytes):
            break
        # Twice the size may only shift the reads, and the next size lengthen them.
        if _mean_transfer_bytes(longer) >= MIN_LENGTHENING * _mean_transfer_bytes(io):
            cut, io = lengthened, longer
    return cut


def _mean_transfer_bytes(io: BlockIO) -> float:
    """Return the average bytes of a read or of a write, whichever is smaller."""
    return min(
        sum(transfer.bytes for transfer in transfers)
        / max(1, sum(transfer.file_offsets.size for transfer in transfers))
        for transfers in (io.reads, io.writes)
    )


def _candidates(group: MoveGroup, max_bytes: int) -> Iterator[tuple[Cut, int]]:
    """Yield candidate cuts, the simplest first, with the numbers of the rounds in which they are tried."""
    sizes = dict.fromkeys(
        (min(LONG_BLOCK_BYTES, max_bytes), min(LONG_BLOCK_BYTES, CACHE_BLOCK_BYTES, max_bytes), max_bytes)
    )
    for round_number, size in enumerate(sizes):
        for side in group.sides:
            for gap in _gaps(side):
                yield from (
                    (cut, round_number) for cut in _cuts_of_size(group, Cut(side, 0, gap, 1, 0), size, max_bytes)
                )
    for side in group.sides:
        for pitch in _pitches(group, side):
            for gap in _gaps(side):
                for size in sizes:
                    cuts = _cuts_of_size(group, Cut(side, pitch, gap, 1, 0), size, max_bytes)
                    yield from ((cut, len(sizes)) for cut in cuts)


def _gaps(side: Side) -> Sequence[int]:
    """Return the gaps that are tried."""
    return GAPS if side == "destination" else GAPS[:1]


def _pitches(group: MoveGroup, side: Side) -> Iterator[int]:
    """Yield the pitches by which every operand can be cut."""
    if group.copies:
        return
    operands = group.operands(side)
    steps = {stride for move in group.moves for stride in end_of(move, side).strides}
    pitch_count = 0
    for step in sorted(steps, reverse=True):
        if pitch_count == MAX_PITCHES:
            return
        if step > 1 and all(group.sizes[k] % step == 0 and group.moves_at(side, k, step) is not None for k in operands):
            pitch_count += 1
            yield step


def _cuts_of_size(group: MoveGroup, cut: Cut, size: int, max_bytes: int) -> Iterator[Cut]:
    """Yield the cut with candidate heights and widths of blocks of a size."""
    operand = group.operands(cut.side)[0]
    unit = max(group.units[operand] for operand in group.operands(cut.side))
    if not cut.pitch:
        wide = cut._replace(width=_align_width(group, cut.side, max(unit, size // unit * unit)))
        yield from _fitting(group, wide, operand, max_bytes, unit)
        return
    for width in (*(candidate for candidate in WIDTHS if candidate < cut.pitch), cut.pitch):
        rounded_width = width if width == cut.pitch else max(unit, width // unit * unit)
        if rounded_width <= size:
            yield from _fitting(
                group, cut._replace(width=rounded_width, height=max(1, size // rounded_width)), operand, max_bytes, unit
            )


def _align_width(group: MoveGroup, side: Side, width: int) -> int:
    """Return the width, rounded down to whole rows of the moves."""
    steps = {stride for move in group.moves for stride in end_of(move, side).strides if 0 < stride <= width}
    return width // max(steps) * max(steps) if steps else width


def _fitting(group: MoveGroup, cut: Cut, operand: int, max_bytes: int, unit: int) -> Iterator[Cut]:
    """Yield the cut, after shrinking it until its blocks fit into memory; nothing if that is impossible."""
    for _ in range(8):
        try:
            size = _middle_io(group, cut, operand).buffer_bytes
        except TooManyRunsError as error:
            share = 0.95 * error.share
        else:
            if size <= max_bytes:
                yield cut
                return
            share = 0.95 * max_bytes / size
        # A block is no larger than the file, so shrinking less would change nothing.
        longest = cut.view(group.sizes[operand]).sizes[0]
        if not cut.pitch:
            width = int(min(cut.width, longest) * share) // unit * unit
            cut = cut._replace(width=_align_width(group, cut.side, width) if width else 0)
        else:
            cut = cut._replace(height=int(min(cut.height, longest) * share))
        if not cut.width or not cut.height:
            return


def _middle_io(group: MoveGroup, cut: Cut, operand: int) -> BlockIO:
    """Return the requests of the block by which a cut is judged; the last result is cached."""
    key = cut, operand
    if group.last_block.get("key") != key:
        area = middle(cut.view(group.sizes[operand]).sizes, cut.block)
        group.last_block.update(key=key, io=block_io(group, cut, operand, area))
    io: BlockIO = group.last_block["io"]
    return io


def _cost(group: MoveGroup, cut: Cut, max_bytes: int) -> float | None:
    """Return the estimated seconds per byte; None if a block is too large."""
    seconds, moved = 0.0, 0
    for operand in group.operands(cut.side)[:3]:
        try:
            io = _middle_io(group, cut, operand)
        except TooManyRunsError:
            return None
        if io.buffer_bytes > max_bytes:
            return None
        seconds += seconds_of(io)
        moved += sum(write.bytes for write in io.writes)
    return seconds / moved if moved else math.inf


def seconds_of(io: BlockIO) -> float:
    """Return estimated seconds of a block."""
    transferred = sum(transfer.bytes for transfer in (*io.reads, *io.writes))
    moved = sum(move.bytes_written for move in io.moves)
    rows = 0
    if io.copied is not None:
        rows = io.copied.to.size
        moved += int(io.copied.lengths.sum())
    return (
        SECONDS_PER_BYTE * (transferred + moved + _bytes_in_short_elements(io))
        + SECONDS_PER_REQUEST * io.requests
        + SECONDS_PER_MOVE * len(io.moves)
        + SECONDS_PER_ROW * rows
        + SECONDS_PER_BLOCK
        + (COLD_SECONDS_PER_BYTE * transferred if io.buffer_bytes > CACHED_WRITE_BYTES else 0)
    )


def _bytes_in_short_elements(io: BlockIO) -> int:
    """Return the bytes of a block that are moved in short elements."""
    return sum(move.bytes_written for move in io.moves if move.element_size < 64)


def blocks_of(
    block_number: int,
    operand: int,
    areas: Iterable[Box],
    group: MoveGroup,
    cut: Cut,
    max_bytes: int,
    io_of: Callable[[int, int, Box], BlockIO],
) -> Iterator[tuple[Block, BlockIO]]:
    """Yield an operand's blocks of at most `max_bytes` bytes each, in the order of its areas."""
    unit = (1, group.units[operand]) if cut.pitch else (group.units[operand],)
    for whole_area in areas:
        regions = [whole_area]
        while regions:
            area = regions.pop()
            try:
                io = io_of(block_number, operand, area)
            except TooManyRunsError:
                # The recursion ends, because a single element is one run.
                regions += halves(area, unit)[::-1]
                continue
            smaller = halves(area, unit) if io.buffer_bytes > max_bytes else [area]
            if len(smaller) == 1 and io.writes:
                yield Block(block_number, operand, area), io
            elif len(smaller) > 1:
                regions += smaller[::-1]
