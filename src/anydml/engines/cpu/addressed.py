"""The step for moves whose addresses are worked out one by one: several lookups, lookups in lookups, scatters."""

from __future__ import annotations

import math

from anydml.engines.cpu.kernel_call import KernelCall, Word, kernel_call, units_per_claim
from anydml.engines.cpu.pool import POOL
from anydml.moves.move import Access, Lookup, Move, components
from anydml.moves.simplify import is_injective
from anydml.text import counted

SEGMENT = 4096
"""Elements of the innermost dimension that are a unit's, where they may run in any order."""

NARROW = 128
"""The same where outer dimensions are walked in order within a unit."""

ENOUGH = 8
"""Units from which on threads have enough to share without buckets."""

NEAR_AXIS = 512 << 10
NEAR_SIZES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes of an axis whose elements the caches bring faster than what would ask for them, and bytes of those elements."""

MOST_AXIS = (1 << 31) - 1
"""Bytes of an axis in which the kernel of lines finds addresses: they are products of 32 bits."""

MOST_BUCKETS = 16
BUCKETED_BYTES = 1 << 20
BUCKETED_ELEMENT = 64
"""Parts of an axis that threads scatter to, each on its own, at most, and the least work and element for which that
pays: every part reads all indices, and so there are no more of them than threads."""


def addressed(move: Move, streamed: bool) -> KernelCall | None:
    """The step for a move with lookups anywhere, or None where it has more than the kernel can hold.

    Args:
        move: a simple move.
        streamed: whether to use non-temporal stores for rows.
    """
    from anydml.engines.cpu.kernels import addressed as kernels

    sizes, to, source, element = move.sizes, move.destination, move.reads, move.element_size
    lookups = [*move.every_lookup()]
    if len(lookups) > kernels.MOST_LOOKUPS:
        return None
    targets = _targets(to, 0, 2) + _targets(source, 1, 2 + len([*_flat(to)]))
    shape = sizes or (1,)
    ends: list[Access | Lookup] = [to, source, *lookups]
    columns = [end.strides or (0,) for end in ends]
    *outer, inner = shape
    shared = [d for d in range(len(outer)) if _is_free(move, d)]
    ordered = [d for d in range(len(outer)) if d not in shared]
    is_shared = not sizes or _is_free(move, len(outer))
    segment = inner
    if is_shared:
        # With lines that are walked in order, a unit is all of them: then it should be narrow.
        segment = min(inner, NARROW if ordered else SEGMENT)
    units = math.prod(shape[d] for d in shared) * -(-inner // segment)
    buckets, bucket = _buckets(move) if units < ENOUGH else (1, 0)
    units *= buckets
    words: list[Word] = [units, units_per_claim(units, move.bytes_written), int(streamed), 1, len(shared)]
    is_partial = buckets > 1 or any(lookup.outside == "skip" for lookup in lookups)
    words += [len(ordered), inner, segment, element, len(lookups), buckets, bucket, int(is_partial)]
    words += [shape[d] for d in (*shared, *ordered)]
    padding = [0] * kernels.LOOKUP_WORDS
    for number, (end, strides) in enumerate(zip(ends, columns, strict=True)):
        words += [(end.operand, end.offset), strides[-1], *(strides[d] for d in (*shared, *ordered))]
        words += _lookup_words(lookups[number - 2], targets, number) if number > 1 else padding
    many = counted(len(lookups), "lookup")
    if to.lookups:
        many += f", the last of several writes wins, {counted(buckets, 'part')} of the axis at once"
    if buckets == 1 and is_near(move, MOST_AXIS):
        from anydml.engines.cpu.kernels.in_line import in_line_kernel

        return kernel_call("in_line", in_line_kernel, f"{element} B, line by line: {many}", (move,), words)
    reason = f"{element} B at addresses worked out one by one: {many}"
    return kernel_call("addressed", kernels.addressed_kernel, reason, (move,), words)


def is_near(move: Move, most: int = NEAR_AXIS) -> bool:
    """Whether one lookup finds all elements of a line, by indices at a place that depends on the line alone.

    Args:
        move: a simple move.
        most: bytes of the axis.
    """
    ends = (*move.destination.lookups, *move.reads.lookups)
    if len(ends) != 1 or move.element_size not in NEAR_SIZES or ends[0].size * abs(ends[0].stride) > most:
        return False
    return all(each.outside == "clamp" and not each.lookups and not any(each.strides[-1:]) for each in ends[0].lookups)


def _lookup_words(lookup: Lookup, targets: list[int], number: int) -> list[Word]:
    from anydml.engines.cpu.kernels import addressed as kernels

    mode = kernels.SKIP if lookup.outside == "skip" else kernels.CLAMP
    dtype = kernels.DTYPES[lookup.dtype]
    return [dtype, lookup.size, lookup.stride, mode, targets[number - 2], int(bool(lookup.lookups))]


def _flat(access: Access | Lookup) -> list[Lookup]:
    return [each for lookup in access.lookups for each in (*_flat(lookup), lookup)]


def _targets(access: Access | Lookup, own: int, first: int) -> list[int]:
    """For each lookup of an access, inner ones first, whose address it adds to; `first` is the number of the first."""
    result: list[int] = []
    for lookup in access.lookups:
        inside = len(_flat(lookup))
        number = first + len(result) + inside
        result += _targets(lookup, number, first + len(result))
        result.append(own)
    return result


def _is_free(move: Move, dimension: int) -> bool:
    """Whether a dimension's coordinates may run in any order: no two of them write the same bytes."""
    to = move.destination
    if not to.lookups:
        return True
    return bool(to.strides[dimension]) and is_injective(components(to, move.sizes), move.element_size)


def _buckets(move: Move) -> tuple[int, int]:
    """Parts of an axis that may be written apart from each other, and the number of the lookup whose axis it is."""
    to = move.destination
    if not to.lookups or move.bytes_written < BUCKETED_BYTES or move.element_size < BUCKETED_ELEMENT:
        return 1, 0
    if not is_injective(components(to, move.sizes), move.element_size):
        return 1, 0
    largest = max(range(len(to.lookups)), key=lambda n: to.lookups[n].size if to.lookups[n].stride else 0)
    lookup = to.lookups[largest]
    # Those of the destination come first, and inner ones before the lookup that they are in.
    number = sum(1 + len(_flat(each)) for each in to.lookups[:largest]) + len(_flat(lookup))
    return max(1, min(POOL.threads, MOST_BUCKETS, lookup.size if lookup.stride else 1)), number
