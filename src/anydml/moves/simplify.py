"""Simplification of moves to the form that kernels expect, and to as few moves as possible.

A simple move has the fewest dimensions, sorted, and the longest contiguous run as its element. Adjacent moves that are
contiguous at both ends are merged: a split whose parts are joined again is one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from anydml.moves.move import Access, Fill, Lookup, Move, all_lookups, components

Dimension = tuple[int, ...]
"""Strides of the destination, the source (unless it is a fill) and each lookup; last, the size."""


class SimpleMoves(tuple[Move, ...]):
    """Moves that are already simple: `simplify` returns them unchanged.

    Examples:
        >>> T = dml.TensorDesc
        >>> flip = dml.Slice1OperatorDesc(T("FLOAT32", [4]), T("FLOAT32", [4]), [0], [4], [-1])
        >>> from anydml import moves
        >>> type(moves.simplify(flip.moves())).__name__
        'SimpleMoves'
    """

    __slots__ = ()


def simplify(moves: Iterable[Move]) -> tuple[Move, ...]:
    """Bring every move to its simplest form, merge adjacent moves, and drop empty ones.

    Dimensions of size 1 are dropped; destination strides become positive and sorted, largest first; dimensions that are
    contiguous in every access are merged; a contiguous innermost dimension becomes part of the element. Elements that
    are written several times, through lookups in a destination, keep their last writer.

    Examples:
        >>> from anydml import moves
        >>> whole = moves.Move((2, 3), moves.Access(1, 0, (12, 4)), moves.Access(0, 0, (12, 4)), 4)
        >>> print(*moves.simplify([whole]))
        1 of 24 B: #1[0] = #0[0]
    """
    if type(moves) is SimpleMoves:
        return moves
    simple = tuple(_simplify(move) for move in moves if 0 not in move.sizes and move.element_size)
    return SimpleMoves(merge_adjacent(simple) if len(simple) > 1 else simple)


def _simplify(move: Move) -> Move:
    sizes, to, source, element_size = move
    ends = (to,) if isinstance(source, Fill) else (to, source)
    # In the order of `all_lookups`, in which `_with_new_strides` takes strides from the list.
    lookups = [lookup for end in ends for lookup in all_lookups(end.lookups)]
    columns = [end.strides for end in ends] + [lookup.strides for lookup in lookups]
    dimensions: list[Dimension] = [*zip(*columns, sizes, strict=True)]
    shift = [0] * len(columns)
    if not to.lookups:
        dimensions = sorted([dimension for dimension in dimensions if dimension[-1] != 1])
        if dimensions and dimensions[0][0] < 0:
            dimensions = sorted(_with_positive_stride(dimension, shift) for dimension in dimensions)
    else:
        dimensions = _sort_keeping_last(dimensions, to, sizes, element_size, shift)
    # The innermost dimension is the element's bytes; contiguous dimensions are merged into it.
    count = len(ends)
    element_strides = [1] * count + [0] * len(lookups)
    merged_dimensions: list[Dimension] = [(*element_strides, element_size)]
    for dimension in dimensions:
        if dimension[-1] == 1:
            continue
        *steps, length = merged_dimensions[-1]
        if dimension[:-1] == tuple([step * length for step in steps]):
            merged_dimensions[-1] = (*steps, length * dimension[-1])
        else:
            merged_dimensions.append(dimension)
    element_size = merged_dimensions[0][-1]
    columns = [*zip(*merged_dimensions[:0:-1], strict=True)] or [()] * (len(columns) + 1)
    if len(columns) == count + 1:
        # The common case without lookups.
        destination = Access(to.operand, to.offset + shift[0], columns[0])
        if isinstance(source, Fill):
            return Move(columns[-1], destination, source, element_size)
        return Move(
            columns[-1], destination, Access(source.operand, source.offset + shift[1], columns[1]), element_size
        )
    new_strides = iter(zip(shift[count:], columns[count:-1], strict=True))
    accesses = [
        Access(end.operand, end.offset + distance, along, tuple(_with_new_strides(end.lookups, new_strides)))
        for end, distance, along in zip(ends, shift, columns, strict=False)
    ]
    return Move(columns[-1], accesses[0], source if isinstance(source, Fill) else accesses[1], element_size)


def _with_new_strides(
    lookups: Sequence[Lookup], new_strides: Iterator[tuple[int, tuple[int, ...]]]
) -> Iterator[Lookup]:
    """Yield lookups with new offsets and strides from `new_strides`, in the order of `all_lookups`."""
    for lookup in lookups:
        inner = tuple(_with_new_strides(lookup.lookups, new_strides))
        distance, strides = next(new_strides)
        yield lookup._replace(offset=lookup.offset + distance, strides=strides, lookups=inner)


def _with_positive_stride(dimension: Dimension, shift: list[int]) -> Dimension:
    """Reverse a dimension whose destination stride is negative; offsets are added to `shift`."""
    if dimension[0] >= 0:
        return dimension
    *strides, size = dimension
    for k, stride in enumerate(strides):
        shift[k] += (size - 1) * stride
    return (*(-stride for stride in strides), size)


def _sort_keeping_last(
    dimensions: list[Dimension], to: Access, sizes: tuple[int, ...], element_size: int, shift: list[int]
) -> list[Dimension]:
    """Sort the dimensions of a move that may write an element twice, innermost first, and keep the last writer.

    If distinct strides and indices give distinct addresses, two coordinates can only collide if they differ solely in
    dimensions that the destination reaches through lookups: these keep their order, the others are free.
    """
    if not is_injective(components(to, sizes), element_size):
        return dimensions[::-1]
    free = sorted(_with_positive_stride(dimension, shift) for dimension in dimensions if dimension[0])
    ordered = [dimension for dimension in reversed(dimensions) if not dimension[0]]
    weight = max(abs(lookup.stride) for lookup in to.lookups)
    within_lookup = [dimension for dimension in free if dimension[0] < weight]
    return [*within_lookup, *ordered, *free[len(within_lookup) :]]


def is_injective(varying: Iterable[tuple[int, int]], element_size: int) -> bool:
    """Whether sizes and strides give every coordinate distinct bytes; False if a simple test cannot decide."""
    reach = element_size
    for stride, size in sorted((abs(stride), size) for size, stride in varying if size > 1 and stride):
        if stride < reach:
            return False
        reach += (size - 1) * stride
    return True


def merge_adjacent(moves: Sequence[Move]) -> tuple[Move, ...]:
    """Merge adjacent simple moves that are contiguous at both ends."""
    result: list[Move] = []
    for move in moves:
        while result and (joined := _merged_pair(result[-1], move)):
            result.pop()
            move = joined  # noqa: PLW2901  # grows, and may continue the one before
        result.append(move)
    return tuple(result)


def _merged_pair(first: Move, second: Move) -> Move | None:
    """Return one simple move for two, or None. The second must not read bytes that the first writes."""
    to, source = first.destination, first.source
    after_to, after = second.destination, second.source
    if to.operand != after_to.operand or type(source) is not type(after):
        return None
    if to.lookups or after_to.lookups or to.strides != after_to.strides:
        return None
    if isinstance(source, Access) and isinstance(after, Access):
        if (source.operand, source.strides) != (after.operand, after.strides) or source.operand == to.operand:
            return None
        if source.lookups or after.lookups:
            return None
        source_distance, reads = after.offset - source.offset, (1, *source.strides)
    elif isinstance(source, Fill) and source == after and first.element_size % len(source.pattern) == 0:
        source_distance, reads = 0, (0,) * (1 + len(to.strides))
    else:
        # The second fill's pattern would have to be rotated.
        return None
    lengths, others = [first.element_size, *first.sizes], [second.element_size, *second.sizes]
    differing = [d for d, (a, b) in enumerate(zip(lengths, others, strict=True)) if a != b]
    distance, writes = after_to.offset - to.offset, (1, *to.strides)
    for d in differing or range(len(lengths)):
        if len(differing) <= 1 and (distance, source_distance) == (lengths[d] * writes[d], lengths[d] * reads[d]):
            lengths[d] += others[d]
            # The enlarged dimension may now be contiguous with the next.
            return _simplify(Move(tuple(lengths[1:]), to, source, lengths[0]))
    return None
