"""Which moves are interleaved columns, and the table of the kernel that does those in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from anydml.engines.cpu.kernel_call import KernelCall, Word, kernel_call, units_per_claim
from anydml.moves import Access, Move
from anydml.text import counted

INTERLEAVE_UNIT = 8192
INTERLEAVE_BYTES = 512
MAX_COLUMNS = 8
MIN_COUNT = 4
"""What the interleave kernel does at a time: bytes of rows in a unit, bytes in registers, columns; rows at least."""

MIN_LINE = 128
"""Rows of a line that make it worth taking an axis for columns."""


Admits = Callable[[str, int], bool]
"""Whether a special kernel may be used for work that writes so many bytes."""


def interleave(moves: Sequence[Move], streamed: bool, admits: Admits) -> KernelCall | None:
    """The step for moves of one box that are columns side by side, or None where they are not, or not admitted.

    Args:
        moves: what is to be done; there may be none.
        streamed: whether to use non-temporal stores.
        admits: whether their pattern may have a kernel.
    """
    for zipped in (False, True) if moves else ():
        forwards = _forwards(moves) if zipped else moves
        if (columns := _columns(forwards, zipped)) is not None:
            return _interleaved(forwards, streamed, admits, zipped, *columns)
    return None


def abreast(moves: Sequence[Move]) -> list[list[Move]]:
    """Moves of one box whose columns lie in one row of the source, together: fewer lists than moves, or none at all."""
    rows: list[list[Move]] = []
    for move in sorted(moves, key=lambda move: (move.reads.operand, move.reads.strides, move.reads.offset)):
        source, first = move.reads, rows[-1][0].reads if rows else None
        is_alike = first is not None and (source.operand, source.strides) == (first.operand, first.strides)
        if first is None or not is_alike or source.offset - first.offset >= abs(source.strides[-1]):
            rows.append([])
        rows[-1].append(move)
    return rows if len(rows) < len(moves) else []


def _forwards(moves: Sequence[Move]) -> Sequence[Move]:
    """Moves that all read their last dimension backwards, seen from its other end: what they write runs backwards."""
    if any(move.reads.strides[-1] != -move.element_size for move in moves):
        return moves

    def turned(access: Access, size: int) -> Access:
        *outer, step = access.strides
        return Access(access.operand, access.offset + (size - 1) * step, (*outer, -step))

    size = moves[0].sizes[-1]
    return [
        Move(move.sizes, turned(move.destination, size), turned(move.reads, size), move.element_size) for move in moves
    ]


def unrolled(moves: Sequence[Move]) -> list[Move]:
    """One move a column, where a single one interleaves a few columns or takes them apart; otherwise nothing.

    The axis of the columns is the innermost on one side, and on the other the one after it is.
    """
    if len(moves) > 1 or len(moves[0].sizes) < 2:
        return []
    (move,) = moves
    sizes, to, source, size = move.sizes, move.destination, move.reads, move.element_size
    number = len(sizes) - 1
    if to.strides[number] != size:
        return []
    if source.strides[number] != size:
        nearest = min(range(len(sizes)), key=lambda d: abs(source.strides[d]) or math.inf)
        # Put together: the destination's innermost axis; taken apart: the source's.
        zipped = sizes[number] <= MAX_COLUMNS and sizes[nearest] >= MIN_LINE
        number = number if zipped else nearest
    if sizes[number] > MAX_COLUMNS:
        return []

    def without(access: Access, k: int) -> Access:
        strides = access.strides
        return Access(access.operand, access.offset + k * strides[number], strides[:number] + strides[number + 1 :])

    rest = sizes[:number] + sizes[number + 1 :]
    if rest[-1] < MIN_LINE:
        return []
    return [Move(rest, without(to, k), without(source, k), size) for k in range(sizes[number])]


def _columns(moves: Sequence[Move], zipped: bool) -> tuple[int, list[int]] | None:
    """Period and column offsets of moves that interleave on one side and are packed on the other, or None."""
    interleaved_ends = [move.destination if zipped else move.reads for move in moves]
    packed_ends = [move.reads if zipped else move.destination for move in moves]
    first, period = interleaved_ends[0], interleaved_ends[0].strides[-1]
    if len(moves) > MAX_COLUMNS or not period:
        return None
    if any(
        interleaved.operand != first.operand or interleaved.strides != first.strides for interleaved in interleaved_ends
    ):
        return None
    if any(packed.strides[-1] != move.element_size for packed, move in zip(packed_ends, moves, strict=True)):
        return None
    runs = [move.element_size for move in moves]
    ends = [interleaved.offset + run for interleaved, run in zip(interleaved_ends, runs, strict=True)]
    # With gaps, a row's window begins at the first column, or ends at the last one where rows run backwards: then only
    # the last row of a line can reach past the operand.
    window = min(interleaved.offset for interleaved in interleaved_ends) if period > 0 else max(ends) - abs(period)
    offsets = [interleaved.offset - window for interleaved in interleaved_ends]
    fits = min(offsets) >= 0 and max(ends) - window <= abs(period)
    used = sum(runs)
    if not fits or (zipped and (used != abs(period) or len(set(offsets)) != len(moves))):
        return None
    if 4 * used < abs(period) or 4 * abs(period) > INTERLEAVE_BYTES:
        return None
    return window, offsets


def _interleaved(
    moves: Sequence[Move], streamed: bool, admits: Admits, zipped: bool, window: int, offsets: list[int]
) -> KernelCall | None:
    interleaved_ends = [move.destination if zipped else move.reads for move in moves]
    packed_ends = [move.reads if zipped else move.destination for move in moves]
    interleaved, runs = interleaved_ends[0], [move.element_size for move in moves]
    step, width = interleaved.strides[-1], abs(interleaved.strides[-1])
    word = math.gcd(16, width, *runs, *offsets)
    *outer, inner = moves[0].sizes
    # A power of two that leaves most of a line to whole vectors.
    count = min(64, 1 << min(INTERLEAVE_BYTES // width, inner // 2).bit_length() - 1) if inner > 1 else 1
    if count < MIN_COUNT:
        return None
    columns = sorted(
        (offset // word, run // word, k) for k, (offset, run) in enumerate(zip(offsets, runs, strict=True))
    )
    pattern = ",".join(f"{offset}:{run}" for offset, run, _ in columns)
    spec = f"{int(zipped)} {word} {width // word} {count} {int(step < 0)} {pattern}"
    if not admits(f"interleave {spec}", math.prod(moves[0].sizes) * sum(runs)):
        return None
    from anydml.engines.cpu.kernels.interleave import interleave_kernel

    segment = max(count, INTERLEAVE_UNIT // max(width, len(runs) * max(runs)) // count * count)
    units = math.prod(outer) * -(-inner // segment)
    words: list[Word] = [
        units,
        units_per_claim(units, math.prod(moves[0].sizes) * width),
        int(streamed),
        len(moves),
        len(outer),
        inner,
        segment,
        *outer,
    ]
    words += [(interleaved.operand, window), *interleaved.strides[:-1]]
    for _, _, k in columns:
        words += [(packed_ends[k].operand, packed_ends[k].offset), *packed_ends[k].strides[:-1]]
    verb = "put together" if zipped else "taken apart"
    reason = (
        f"{counted(len(moves), 'column')} of {'+'.join(map(str, runs))} B every {step} B, {verb} {count} rows at a time"
    )
    return kernel_call("interleave", partial(interleave_kernel, spec), reason, moves, words)
