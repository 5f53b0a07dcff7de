"""Moves that look up one axis of their source, and the tables of the three kernels that do those."""

from __future__ import annotations

import math
from functools import partial

from anydml.engines.cpu.addressed import is_near
from anydml.engines.cpu.columns import Admits
from anydml.engines.cpu.kernel_call import KernelCall, Word, chunk_bytes, kernel_call, units_per_claim
from anydml.engines.cpu.permute import STREAMED_BYTES
from anydml.engines.cpu.permuted_blocks import LINE
from anydml.moves import Move, reordered
from anydml.moves.move import Lookup

ELEMENT, SHORT_ROW = 64, 512
"""Longest run, in bytes, that counts as an element, longer ones are rows; longest row that is put together before it
leaves by non-temporal stores."""

ELEMENT_UNIT = 8192
LINE_BLOCK = 256 << 10
LINE_BLOCKS = 64
"""Elements of a unit; bytes of source, and lines, of a block of lines that share indices."""

SIZES = (1, 2, 4, 8, 16)
"""Bytes of elements that have kernels of their own in any case."""

SHORT_AXIS = 1 << 20
"""Bytes of an axis whose elements are looked up line by line."""

LEAST_LINES, LEAST_SEGMENT = 8, 1024
"""Lines that share indices, and looked-up elements, of a unit at least: what begins one counts little then."""


def has_one_lookup(move: Move) -> bool:
    """Whether a move looks up one axis of its source and no more."""
    if move.destination.lookups or len(move.reads.lookups) != 1:
        return False
    (lookup,) = move.reads.lookups
    if is_near(move, SHORT_AXIS) and _has_indices_of_its_own(move, lookup):
        return False
    # Indices to refuse have been looked for before: those that are left lie inside.
    return lookup.outside != "skip" and not lookup.lookups and lookup.dtype != "uint8"


def _has_indices_of_its_own(move: Move, lookup: Lookup) -> bool:
    """Whether each line has indices of its own, one an element: there is nothing to work out once for many lines."""
    *_, inner = lookup.strides or (0,)
    return bool(inner) and all(lookup.strides[:-1][-1:])


def _page_by_page(move: Move) -> Move:
    """A move in which all rows that one index finds follow each other, if they lie side by side in the source."""
    source, (lookup,) = move.reads, move.reads.lookups
    dimensions = range(len(move.sizes))
    page = [d for d in dimensions if not lookup.strides[d]]
    order = [*(d for d in dimensions if d not in page), *page]
    if order == [*dimensions] or any(abs(source.strides[d]) * move.sizes[d] > abs(lookup.stride) for d in page):
        return move
    return reordered(move, order)


def lookup(move: Move, streamed: bool, admits: Admits) -> KernelCall:
    """The step for such a move.

    Args:
        move: simplified.
        streamed: whether to use non-temporal stores.
        admits: whether elements of an odd size may have a kernel.
    """
    from anydml.engines.cpu.kernels import lookup as kernels

    if ELEMENT < move.element_size <= SHORT_ROW and (paged := _page_by_page(move)) is not move:
        # Lines of many rows at a time would drive each other out, if they did not leave whole.
        numbers = (move.element_size, move.destination.offset, *move.destination.strides)
        streamed = streamed or (move.bytes_written > STREAMED_BYTES and not any(number % LINE for number in numbers))
        move = paged
    to, source, (found,) = move.destination, move.reads, move.reads.lookups
    starts: list[Word] = [(to.operand, to.offset), (source.operand, source.offset), (found.operand, found.offset)]
    sizes = move.sizes or (1,)
    columns = [list(strides or (0,)) for strides in (to.strides, source.strides, found.strides)]
    size, inner, lines, block = move.element_size, sizes[-1], 1, 1
    bits = int(found.dtype[-2:]) * (-1 if found.dtype[0] == "i" else 1)
    outer = list(sizes[:-1])
    kernel, segment = "lookup rows", kernels.ROW_SEGMENT
    load = partial(kernels.rows_kernel, bits)
    special = size <= ELEMENT and (size in SIZES or admits(f"lookup {size} {bits}", move.bytes_written))
    if special and outer and not columns[2][-2] and columns[2][-1]:
        lines, kernel, segment = outer.pop(), "lookup lines", kernels.LINE_SEGMENT
        block = max(1, min(lines, LINE_BLOCK // max(abs(columns[1][-2]), 1), LINE_BLOCKS))
        load = partial(kernels.lines_kernel, size, bits)
    elif special:
        kernel, segment = "lookup elements", ELEMENT_UNIT
        load = partial(kernels.elements_kernel, size, bits)
    # Not so few units that one thread does all of them.
    piece = chunk_bytes(move.bytes_written)
    block = min(block, max(LEAST_LINES, piece // (min(segment, inner) * size)))
    segment = max(1, min(segment, inner, max(LEAST_SEGMENT if special else 1, piece // size)))
    units = math.prod(outer) * -(-lines // block) * -(-inner // segment)
    words: list[Word] = [units, units_per_claim(units, move.bytes_written), int(streamed), 1, len(outer)]
    words += [inner, segment, lines, block, size, found.size, found.stride, *outer]
    for start, column in zip(starts, columns, strict=True):
        words += [start, column[-1], column[len(outer)] if lines > 1 else 0, *column[: len(outer)]]
    reason = f"{size} B by {found.dtype} index" + (f", {block} lines at a time" if lines > 1 else "")
    return kernel_call(kernel, load, reason, (move,), words)
