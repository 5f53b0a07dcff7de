"""Which kernel does which moves: simplified moves are grouped, and each group gets the kernel that fits it and why.

A `KernelCall` is a kernel's table with its addresses left out; binding puts them in. Moves of one group share their box
of rows or elements, so that one pass serves all parts of a split or a join.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from anydml.engines.cpu.addressed import addressed
from anydml.engines.cpu.admission import Admission
from anydml.engines.cpu.choices import choice, parted
from anydml.engines.cpu.columns import Admits, abreast, interleave, unrolled
from anydml.engines.cpu.fills import fill, is_fill
from anydml.engines.cpu.kernel_call import KernelCall, Word, chunk_bytes, kernel_call, units_per_claim
from anydml.engines.cpu.lookups import ELEMENT, SHORT_ROW, has_one_lookup, lookup
from anydml.engines.cpu.machine import again_share, most_cached
from anydml.engines.cpu.permute import goes_along_lines, permuted, permuted_rows
from anydml.engines.cpu.permuted_blocks import LINE
from anydml.engines.cpu.pixels import has_short_lines, pixels
from anydml.moves import Access, Move, reordered, stages

PACKED_UNIT = 1024
"""Bytes of short rows that leave at a time."""

LONG_ROW = 2048
"""Rows so long, in bytes, that it does not matter how far from each other they are read: blocks would hold too few."""

SEGMENT = 1024
TRANSPOSED_SEGMENT = 256
"""Elements of a unit."""

MOST_RUN_PARTS = 256
"""Parts, about, that long runs are cut into: a table is no longer for longer ones."""

COMMON_SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Bytes of elements that have kernels of their own in any case."""

SHORT_LINE = 64
"""Elements of a line that is no line of its own where there are others."""

AGAIN_PART = 8
"""The part of what is written that later moves must touch for it to stay in the caches."""

PERMUTED_BYTES, LONG_TABLES_BYTES, SHORT_TABLE = 256, 16 << 10, 1536
"""Bytes of a part that has a pass of its own, of one whose table may be longer than calls of a microsecond fill, and
words that they do fill."""


def plan(moves: Sequence[Move], written: int, admission: Admission | None = None) -> tuple[KernelCall, ...] | None:
    """Steps for simplified moves, in an order that keeps theirs, or None where a move is beyond the kernels.

    Args:
        moves: what is to be done; no fills (see `without_fills`).
        written: the bytes that they write, all together.
        admission: which special kernels may be used; all, by default.
    """
    admits = _all if admission is None else admission.allows
    parts = [*parted(moves)]
    streamed = _goes_past(parts, written)
    steps: list[KernelCall] = []
    for part in parts:
        if isinstance(part, tuple):
            steps.append(choice(*part, streamed)._replace(stage=_next_stage(steps)))
        elif _planned(part, steps, streamed, admits):
            return None
    return tuple(steps)


def _goes_past(parts: Sequence[list[Move] | tuple[Move, Access]], written: int) -> bool:
    """Whether so many bytes are stored past the caches: more where much of it is read or written again at once."""
    if written <= most_cached():
        return False
    later = [move for part in parts if isinstance(part, list) for stage in stages(part)[1:] for move in stage]
    again = sum(move.bytes_written for move in later)
    return again * AGAIN_PART < written or written > most_cached() * again_share()


def _next_stage(steps: Sequence[KernelCall]) -> int:
    return steps[-1].stage + 1 if steps else 0


def _planned(moves: Sequence[Move], steps: list[KernelCall], streamed: bool, admits: Admits) -> bool:
    """Add the steps for some moves; whether one of them is beyond the kernels."""
    for stage in stages(moves):
        done, number = len(steps), _next_stage(steps)
        boxes: dict[tuple[int, ...], list[Move]] = {}
        for move in stage:
            if not move.has_lookups:
                boxes.setdefault(move.sizes, []).append(move)
            elif step := lookup(move, streamed, admits) if has_one_lookup(move) else addressed(move, streamed):
                steps.append(step)
            else:
                return True
        for box in boxes.values():
            steps += _box(box, streamed, admits)
        if number:
            steps[done:] = [step._replace(stage=number) for step in steps[done:]]
    return False


def _all(kernel: str, moved: int) -> bool:
    """Every special kernel is welcome."""
    return True


def _box(moves: list[Move], streamed: bool, admits: Admits) -> Iterator[KernelCall]:
    """Steps for moves of one box."""
    fills = [move for move in moves if is_fill(move)]
    if fills:
        yield from (fill(move, streamed) for move in fills)
        moves = [move for move in moves if move not in fills]
        if not moves:
            return
    if streamed and len(moves) == 1 and _is_row_of_block(moves[0]):
        yield permuted_rows(moves[0])
        return
    if not moves[0].sizes or min([move.element_size for move in moves]) > SHORT_ROW:
        # All are long rows: nothing to tell apart.
        yield _rows(moves, streamed)
        return
    if streamed and (ordered := _in_source_order(moves)):
        yield _rows(ordered, streamed, ", in the source's order")
        return
    groups: dict[str, list[Move]] = {"rows": [], "packed": [], "short": []}
    for move in moves:
        if streamed and _is_short_row(move):
            groups["packed"].append(move)
        else:
            groups["short" if move.sizes and move.element_size <= ELEMENT else "rows"].append(move)
    if 2 * sum(move.element_size for move in groups["rows"]) >= sum(move.element_size for move in moves):
        # Mostly long rows: the few short ones are not worth a pass of their own.
        groups = {"rows": moves}
    if groups["rows"]:
        yield _rows(groups["rows"], streamed)
    if packed := groups.get("packed"):
        yield _elements(packed, streamed, admits)
    if short := groups.get("short"):
        yield from _short(short, streamed, admits)


def _short(moves: list[Move], streamed: bool, admits: Admits) -> Iterator[KernelCall]:
    """Steps for elements of moves of one box."""
    sizes = moves[0].sizes
    is_long = len(moves) > 1 or len(sizes) < 2 or sizes[-1] >= SHORT_LINE
    if len(moves) == 1 and has_short_lines(moves[0]) and (pixel_step := pixels(moves, streamed, admits)):
        yield pixel_step
        return
    if step := interleave(unrolled(moves), streamed, admits) or (is_long and interleave(moves, streamed, admits)):
        yield step
        return
    if step := pixels(moves, streamed, admits):
        yield step
        return
    apart = [interleave(row, streamed, admits) for row in abreast(moves)] if is_long else []
    if apart and None not in apart:
        yield from (step for step in apart if step)
        return
    for same in _by_size(moves):
        steps: list[KernelCall] = []
        written = same[0].bytes_written
        is_plain = len(same) == 1 and goes_along_lines(same[0], streamed, SHORT_LINE, TRANSPOSED_SEGMENT)
        if all(map(_is_permuted, same)) and written >= PERMUTED_BYTES and not is_plain:
            steps = [
                interleave(unrolled([move]), streamed, admits) or permuted(move, streamed, admits) for move in same
            ]
        if steps and (written >= LONG_TABLES_BYTES or all(map(_has_short_table, steps))):
            yield from steps
        else:
            yield _elements(same, streamed, admits)


def _has_short_table(step: KernelCall) -> bool:
    return step.template.size <= SHORT_TABLE


def _is_permuted(move: Move) -> bool:
    """Whether lines of the destination are no lines of the source, or so short that several should make one."""
    if len(move.sizes) < 2:
        return False
    strides = [abs(stride) or math.inf for stride in move.reads.strides]
    return strides[-1] > min(strides) or move.sizes[-1] < SHORT_LINE


def _is_short_row(move: Move) -> bool:
    """Whether rows are so short that, with non-temporal stores, they should leave several at a time."""
    size = move.element_size
    return bool(move.sizes) and ELEMENT < size <= SHORT_ROW and move.destination.strides[-1] == size


def _in_source_order(moves: Sequence[Move]) -> list[Move]:
    """Several moves of short rows that lie elsewhere in the source, in its order: nothing unless all are whole lines.

    Then each source is read once from front to back, by all moves together, and lines leave whole in any order.
    """
    first, order = moves[0], _reading_order(moves[0].reads.strides)
    if len(moves) < 2 or order == [*range(len(first.sizes))]:
        return []
    for move in moves:
        numbers = (move.element_size, move.destination.offset, *move.destination.strides)
        is_alike = move.reads.strides == first.reads.strides and move.element_size <= SHORT_ROW
        if not is_alike or any(number % LINE for number in numbers):
            return []
    return [reordered(move, order) for move in moves]


def _reading_order(strides: Sequence[int]) -> list[int]:
    """Dimensions by their strides, the largest first; those of one stride keep their order."""
    return sorted(range(len(strides)), key=lambda d: -abs(strides[d]))


def _is_row_of_block(move: Move) -> bool:
    """Whether rows that leave past the caches should be taken by blocks: short ones, and those in another order."""
    size = move.element_size
    if not move.sizes or not ELEMENT < size < LONG_ROW or move.destination.strides[-1] != size:
        return False
    strides = [abs(stride) or math.inf for stride in move.reads.strides]
    return size <= SHORT_ROW or strides[-1] > min(strides)


def _by_size(moves: Iterable[Move]) -> list[list[Move]]:
    result: dict[int, list[Move]] = {}
    for move in moves:
        result.setdefault(move.element_size, []).append(move)
    return list(result.values())


def _rows(moves: Sequence[Move], streamed: bool, order: str = "") -> KernelCall:
    from anydml.engines.cpu.kernels.rows import rows_kernel

    sizes = moves[0].sizes
    runs = [move.element_size for move in moves]
    total = math.prod(sizes) * sum(runs)
    cut = (max(chunk_bytes(total), sum(runs) // MOST_RUN_PARTS) + 4095) & ~4095
    parts: list[Word] = []
    for move in moves:
        to, source, run = move.destination, move.reads, move.element_size
        strides = [stride for pair in zip(to.strides, source.strides, strict=True) for stride in pair]
        if run <= cut:
            parts += ((to.operand, to.offset), (source.operand, source.offset), run, *strides)
            continue
        for start in range(0, run, cut):
            size = min(cut, run - start)
            parts += ((to.operand, to.offset + start), (source.operand, source.offset + start), size, *strides)
    count = len(parts) // (3 + 2 * len(sizes))
    units = math.prod(sizes) * count
    words = [units, units_per_claim(units, total), int(streamed), count, len(sizes), *sizes, *parts]
    return kernel_call("rows", rows_kernel, f"runs of {min(runs)} B and more{order}", moves, words)


def _elements(moves: Sequence[Move], streamed: bool, admits: Admits) -> KernelCall:
    from anydml.engines.cpu.kernels.elements import BLOCK as ELEMENTS_BLOCK
    from anydml.engines.cpu.kernels.elements import elements_kernel

    *outer, inner = moves[0].sizes
    written = math.prod(moves[0].sizes) * sum(move.element_size for move in moves)
    longest = max(move.element_size for move in moves)
    source = moves[0].reads
    transposed = bool(outer) and abs(source.strides[-1]) > abs(source.strides[-2]) > 0
    near = outer[-1] if transposed else 1
    span = max(abs(source.strides[-1]), 1)
    if longest > ELEMENT:
        near, segment, constant = 1, PACKED_UNIT // longest, 0
        reason = f"runs of {longest} B at most, which leave several at a time"
    else:
        segment = max(16, min(SEGMENT, (1 << 17) // span))
        common = longest in COMMON_SIZES or admits(f"elements {longest}", written)
        constant = longest if common else 0
        reason = f"elements of {longest} B at strides of their own"
        if transposed:
            segment, reason = TRANSPOSED_SEGMENT, f"{reason}, transposed"
    segment = max(1, min(segment, ELEMENTS_BLOCK // longest))
    units = math.prod(outer) * -(-inner // segment)
    words: list[Word] = [
        units,
        units_per_claim(units, written),
        int(streamed),
        len(moves),
        len(outer),
        inner,
        segment,
        near,
        *outer,
    ]
    for move in moves:
        to, source = move.destination, move.reads
        words += [(to.operand, to.offset), (source.operand, source.offset), to.strides[-1], source.strides[-1]]
        words.append(move.element_size)
        words += [stride for pair in zip(to.strides[:-1], source.strides[:-1], strict=True) for stride in pair]
    return kernel_call("elements", partial(elements_kernel, constant), reason, moves, words)
