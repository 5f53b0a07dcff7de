"""How a permuted copy is cut into blocks, and the table of the kernels that do them.

The source is read along a group of axes I, its innermost ones, the destination written along a group J, its innermost
ones. Axes join a group until its rows are long enough to fill lines; what is in neither is an outer loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from anydml.engines.cpu.columns import Admits
from anydml.engines.cpu.kernel_call import KernelCall, kernel_call
from anydml.engines.cpu.permuted_blocks import LINE, Axis, Blocks
from anydml.moves import Move

SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Bytes of elements that are turned in registers, and that have kernels of their own where they move one by one."""

STREAMED_BYTES, STREAMED_PLANES = 1 << 20, 3 << 20
"""Outputs larger than this are stored non-temporally: lines of many rows at a time would drive each other out. So are
those larger than the second figure whose planes, one after the other, lie in stretches of memory up to the first."""

ROW_BYTES = {1: 64, 2: 128, 4: 256, 8: 256, 16: 256}
COLUMN_BYTES = {1: 256, 2: 256}
ROWS, COLUMNS = 128, 512
"""Bytes of a block along I and along J, by the size of an element, about; of others."""

STRAIGHT_ROW = 1024
"""Bytes of a row of the source in a block whose tiles are stored at once, past the caches: long stretches of few rows
are read as fast as memory gives them, while rows that are many and short are not foreseen."""

STRAIGHT_FROM = 512
"""Bytes of a row of the source, all of it, from which on that pays."""

STRAIGHT_LINES = 2
"""Lines of each row of the destination in such a block: neighbours in memory are stored soon after each other."""

STRAIGHT_TO = 2048
"""Bytes of a row of the destination from which on it does not matter that its two ends may be parts of lines."""

KEPT_BYTES = 24 << 10
"""Bytes of a block that is stored into the caches, about: both ends of it fit the first one."""

SHARED_BYTES, SHARED_COLUMNS = 128 << 10, 1024
"""Bytes of a copy that threads may share, and elements of its rows up to which a block has whole ones nevertheless:
lines that two threads write parts of go from core to core."""

WHOLE_BYTES = 12 << 10
"""Bytes of a block whose rows follow each other in the destination, about."""

TABLE_COLUMNS, TABLE_ROWS, LEAST_TABLE_ROWS = 64, 16, 4
"""Elements of a block along J and along I where they move one by one, about; of whole rows, along I at least."""

BY_ELEMENTS = 16
"""Bytes of an element from which on elements that stay in the caches are moved as fast one by one: few fit a tile."""

ALONG_LINES = 32 << 10, 640 << 10
"""Bytes of a copy in which elements of 8 bytes, too, are moved one by one along lines of the destination: whole lines
in their order go to the second cache faster than parts of many."""

SETS, WAYS = 64, 8
"""Lines of 64 bytes that a first cache holds at least: sets, which addresses choose, and lines of each."""

ROWS_FROM, ROWS_TO = 8 << 10, 8 << 10
"""Bytes of a block of rows in the source and in the destination, about."""

FILLED = {1: 0.08, 2: 0.15, 3: 0.25, 4: 0.25, 6: 0.45, 8: 0.45, 12: 0.7, 16: 0.7}
"""The share of a tile that must be filled for it to be faster than to move its elements one by one."""


def permuted(move: Move, streamed: bool, admits: Admits) -> KernelCall:
    """The step for a move of at least two dimensions.

    Args:
        move: simplified, without lookups.
        streamed: whether to use non-temporal stores.
        admits: whether elements of an odd size may have a kernel.
    """
    has_few = move.element_size >= BY_ELEMENTS or _has_small_planes(move)
    streamed = streamed or move.bytes_written > (STREAMED_PLANES if has_few else STREAMED_BYTES)
    turned = None if move.element_size >= BY_ELEMENTS and not streamed else _turned(move, streamed)
    return turned or _by_tables(move, streamed, admits)


def _has_small_planes(move: Move) -> bool:
    """Whether what one line of the source and one of the destination span are small parts of both ends."""
    nearest = min(range(len(move.sizes)), key=lambda d: abs(move.reads.strides[d]) or math.inf)
    most = min(STREAMED_BYTES, move.bytes_written // 2)
    spans = move.sizes[-1] * abs(move.reads.strides[-1]), move.sizes[nearest] * abs(move.destination.strides[nearest])
    return max(spans) <= most


def goes_along_lines(move: Move, streamed: bool, least: int, most: int) -> bool:
    """Whether a permuted copy is one that moves elements one by one along lines of the destination.

    Args:
        move: simplified, without lookups, of at least two dimensions.
        streamed: whether non-temporal stores are asked for.
        least: elements that a line has.
        most: elements of a line whose lines in the source should stay in the first cache.
    """
    size, inner = move.element_size, move.sizes[-1]
    if size != 8 or streamed or not ALONG_LINES[0] <= move.bytes_written <= ALONG_LINES[1]:
        return False
    if move.destination.strides[-1] != size or inner < least:
        return False
    lines, rest = divmod(abs(move.reads.strides[-1]), LINE)
    used = SETS if rest else SETS // math.gcd(SETS, lines)
    return min(inner, most) <= used * WAYS


def _turned(move: Move, streamed: bool) -> KernelCall | None:
    """The step with tiles in registers, or None where elements do not lie side by side, or would fill no tiles."""
    size = move.element_size
    if size not in SIZES:
        return None
    from anydml.engines.cpu.kernels.blocks import BLOCK
    from anydml.engines.cpu.kernels.tiles import PADDED, side_of

    side = side_of(size)
    blocks = _straight(move, side) if streamed else None
    if blocks is not None:
        return _turn(move, side, blocks)
    goals = [max(side, ROW_BYTES.get(size, ROWS) // size), max(side, COLUMN_BYTES.get(size, COLUMNS) // size)]
    most = SHARED_COLUMNS if move.bytes_written >= SHARED_BYTES else KEPT_BYTES // (side * size)
    row = 0 if streamed else _whole_row(move, side, most, packed=True)
    if row:
        goals = [max(side, KEPT_BYTES // (row * size)), row]
    is_long = row > 0
    while True:
        chosen = _choose(move, goals, packed=True)
        if chosen is None:
            return None
        rows, columns, outer = chosen
        lengths = [math.prod(axis.size for axis in group) for group in (rows, columns)]
        if math.prod(min(length, side) for length in lengths) < FILLED[size] * side * side:
            return None
        if lengths[1] <= goals[1] and lengths[1] * size < 1024 and not is_long:
            is_long = True
            # Whole rows: many of them, so that those which follow each other make long runs.
            goals[0] = max(goals[0], WHOLE_BYTES // (lengths[1] * size))
            rows, columns, outer = _choose(move, goals, packed=True) or chosen
        blocks = Blocks(move, rows, columns, outer, goals, side, streamed)
        needs_no_scratch = row and size not in PADDED and blocks.direct() > 0
        if needs_no_scratch or max(blocks.rows.length, side) * blocks.pitch <= BLOCK:
            break
        if max(goals) <= side:
            return None
        larger = int(goals[1] > goals[0])
        goals[larger] = max(side, goals[larger] // 2)
    return _turn(move, side, blocks)


def _whole_row(move: Move, side: int, most: int, packed: bool) -> int:
    """Elements of a row of the destination along J; 0 where it has more than so many, or there is none."""
    chosen = _choose(move, [side, most], packed)
    length = math.prod(axis.size for axis in chosen[1]) if chosen else 0
    return length if length <= most else 0


def _straight(move: Move, side: int) -> Blocks | None:
    """Blocks whose tiles are whole lines of the destination, or None where there are none, or rows are short."""
    size = move.element_size
    goals = [max(side, STRAIGHT_ROW // size), STRAIGHT_LINES * side]
    chosen = _choose(move, goals, packed=True)
    if chosen is None:
        return None
    lengths = [math.prod(axis.size for axis in group) for group in chosen[:2]]
    if lengths[0] * size < STRAIGHT_FROM or lengths[1] * size < STRAIGHT_TO:
        return None
    goals[1] *= max(1, goals[0] // lengths[0])
    blocks = Blocks(move, *chosen, goals, side, streamed=True, straight=True)
    return blocks if blocks.direct() == 3 else None


def _turn(move: Move, side: int, blocks: Blocks) -> KernelCall:
    from anydml.engines.cpu.kernels.turn import turn_kernel

    size = move.element_size
    reason = f"elements of {size} B permuted, in tiles of {side}×{side}, blocks of {blocks}"
    return kernel_call("turn", partial(turn_kernel, size), reason, (move,), blocks.words())


def _by_tables(move: Move, streamed: bool, admits: Admits) -> KernelCall:
    """The step that moves elements one by one."""
    from anydml.engines.cpu.kernels.blocks import BLOCK
    from anydml.engines.cpu.kernels.table import table_kernel

    size = move.element_size
    goals = [TABLE_ROWS, max(1, min(TABLE_COLUMNS, 2048 // size))]
    row = 0 if streamed else _whole_row(move, 1, SHARED_COLUMNS, packed=False)
    if row:
        goals = [min(max(LEAST_TABLE_ROWS, KEPT_BYTES // (row * size)), TABLE_ROWS), row]
    rows, columns, outer = _choose(move, goals, packed=False) or ([], [], [])
    blocks = Blocks(move, rows, columns, outer, goals, 1, streamed)
    if blocks.rows.length * blocks.pitch > BLOCK:
        blocks.packed = False
    common = size in SIZES or admits(f"table {size}", move.bytes_written)
    reason = f"elements of {size} B permuted one by one, blocks of {blocks}"
    return kernel_call("table", partial(table_kernel, size if common else 0), reason, (move,), blocks.words())


def permuted_rows(move: Move) -> KernelCall:
    """The step for rows that are too long for an element and too short to be read in any order (see `row_blocks`).

    Args:
        move: simplified, without lookups, of at least one dimension; its rows lie side by side in the destination,
            and are stored past the caches.
    """
    from anydml.engines.cpu.kernels.row_blocks import STAGE, row_blocks_kernel

    size = move.element_size
    if len(move.sizes) == 1:
        to, source = (end._replace(strides=(0, *end.strides)) for end in (move.destination, move.reads))
        move = Move((1, *move.sizes), to, source, size)
    goals = [max(1, bytes_ // size) for bytes_ in (ROWS_FROM, ROWS_TO)]
    rows, columns, outer = _choose(move, goals, packed=False) or ([], [], [])
    blocks = Blocks(move, rows, columns, outer, goals, 1, streamed=True, apart=True)
    blocks.pitch = STAGE // size
    reason = f"rows of {size} B, blocks of {blocks} of them, past the caches"
    return kernel_call("row_blocks", row_blocks_kernel, reason, (move,), blocks.words())


def _choose(move: Move, goals: Sequence[int], packed: bool) -> tuple[list[Axis], list[Axis], list[Axis]] | None:
    """The axes of I and J, the innermost first, and the others, the outermost first.

    Args:
        move: what is to be done.
        goals: elements that I and J should have.
        packed: whether elements must lie side by side, along I in the source and along J in the destination.
    """
    size = move.element_size
    axes = [Axis(*axis) for axis in zip(move.sizes, move.destination.strides, move.reads.strides, strict=True)]
    left_to, left_from = axes[::-1], sorted(axes, key=lambda axis: abs(axis.source) or math.inf)
    groups: list[list[Axis]] = [[], []]
    blocked = [False, False]
    while not all(blocked):
        lengths = [math.prod(axis.size for axis in group) for group in groups]
        # First one axis each, then whichever is shorter of its goal.
        which = min((0, 1), key=lambda k: (blocked[k], bool(groups[k]), lengths[k] / goals[k], -k))
        if groups[which] and lengths[which] >= goals[which]:
            blocked[which] = True
            continue
        queue = (left_from, left_to)[which]
        while queue and not packed and any(queue[0] is axis for group in groups for axis in group):
            queue.pop(0)
        axis = queue[0] if queue else None
        if axis is None or any(axis is other for group in groups for other in group):
            blocked[which] = True
            continue
        if packed and (axis.to if which else abs(axis.source)) != size * lengths[which]:
            blocked[which] = True
            continue
        groups[which].append(queue.pop(0))
    if not all(groups):
        return None
    used = {id(axis) for group in groups for axis in group}
    return groups[0], groups[1], [axis for axis in axes if id(axis) not in used]
