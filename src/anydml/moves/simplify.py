"""The simplest form of moves: the one shape that kernels are written for, and as few moves as do the same.

A simple move has the fewest dimensions, sorted, and the longest contiguous run as its element. Moves that continue each
other at both ends become one: the parts of a split that are joined again are one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from anydml.moves.move import Access, Fill, Lookup, Move, components, every_lookup

Dimension = tuple[int, ...]
"""The strides of destination, source (if it is no fill) and each lookup, and the size."""


class SimpleMoves(tuple[Move, ...]):
    """Moves that are simple, and known to be: to simplify them again costs nothing.

    Examples:
        >>> T = dml.TensorDesc
        >>> flip = dml.Slice1OperatorDesc(T("FLOAT32", [4]), T("FLOAT32", [4]), [0], [4], [-1])
        >>> from anydml import moves
        >>> type(moves.simplify(flip.moves())).__name__
        'SimpleMoves'
    """

    __slots__ = ()


def simplify(moves: Iterable[Move]) -> tuple[Move, ...]:
    """Bring every move to its simplest form, and merge neighbours; moves of nothing are dropped.

    Dimensions of size 1 go; destination strides become positive and sorted, largest first; neighbours that every
    access lets merge are merged; the innermost dimension becomes part of the element where it is contiguous. What is
    written twice, through lookups in a destination, keeps its order.

    Examples:
        >>> from anydml import moves
        >>> whole = moves.Move((2, 3), moves.Access(1, 0, (12, 4)), moves.Access(0, 0, (12, 4)), 4)
        >>> print(*moves.simplify([whole]))
        1 of 24 B: #1[0] = #0[0]
    """
    if type(moves) is SimpleMoves:
        return moves
    simple = tuple(_simplify(move) for move in moves if 0 not in move.sizes and move.element_size)
    return SimpleMoves(merged(simple) if len(simple) > 1 else simple)


def _simplify(move: Move) -> Move:
    sizes, to, source, element_size = move
    ends = (to,) if isinstance(source, Fill) else (to, source)
    # In the order of `every_lookup`, by which they are put together again.
    lookups = [lookup for end in ends for lookup in every_lookup(end.lookups)]
    columns = [end.strides for end in ends] + [lookup.strides for lookup in lookups]
    dimensions: list[Dimension] = [*zip(*columns, sizes, strict=True)]
    shift = [0] * len(columns)
    if not to.lookups:
        dimensions.sort()
        if dimensions and dimensions[0][0] < 0:
            dimensions = sorted(_forwards(dimension, shift) for dimension in dimensions)
    else:
        dimensions = _in_order(dimensions, to, sizes, element_size, shift)
    # The innermost dimension of all is that of an element's bytes; it takes in what is contiguous.
    count = len(ends)
    inner_most = [1] * count + [0] * len(lookups)
    merged_dimensions: list[Dimension] = [(*inner_most, element_size)]
    for dimension in dimensions:
        if dimension[-1] == 1:
            continue
        inner = merged_dimensions[-1]
        length = inner[-1]
        if all(stride == step * length for stride, step in zip(dimension[:-1], inner[:-1], strict=True)):
            merged_dimensions[-1] = (*inner[:-1], length * dimension[-1])
        else:
            merged_dimensions.append(dimension)
    element_size = merged_dimensions[0][-1]
    columns = [*zip(*merged_dimensions[:0:-1], strict=True)] or [()] * (len(columns) + 1)
    if len(columns) == count + 1:
        # No lookups: the common case, without the machinery for them.
        destination = Access(to.operand, to.offset + shift[0], columns[0])
        if isinstance(source, Fill):
            return Move(columns[-1], destination, source, element_size)
        return Move(
            columns[-1], destination, Access(source.operand, source.offset + shift[1], columns[1]), element_size
        )
    each = iter(zip(shift[count:], columns[count:-1], strict=True))
    rebuilt = [
        Access(end.operand, end.offset + by, own, tuple(_rebuilt(end.lookups, each)))
        for end, by, own in zip(ends, shift, columns, strict=False)
    ]
    return Move(columns[-1], rebuilt[0], source if isinstance(source, Fill) else rebuilt[1], element_size)


def _rebuilt(lookups: Sequence[Lookup], each: Iterator[tuple[int, tuple[int, ...]]]) -> Iterator[Lookup]:
    """Lookups with the shifts and strides that follow in `each`, in the order of `every_lookup`."""
    for lookup in lookups:
        inner = tuple(_rebuilt(lookup.lookups, each))
        by, strides = next(each)
        yield lookup._replace(offset=lookup.offset + by, strides=strides, lookups=inner)


def _forwards(dimension: Dimension, shift: list[int]) -> Dimension:
    """A dimension in which the destination walks backwards, seen from its other end; offsets go to `shift`."""
    if dimension[0] >= 0:
        return dimension
    *strides, size = dimension
    for k, stride in enumerate(strides):
        shift[k] += (size - 1) * stride
    return (*(-stride for stride in strides), size)


def _in_order(
    dimensions: list[Dimension], to: Access, sizes: tuple[int, ...], element_size: int, shift: list[int]
) -> list[Dimension]:
    """Dimensions of a move that may write twice, innermost first, such that the same write stays the last.

    Where different strides and indices give different addresses, two coordinates meet only if they differ in nothing
    but dimensions that the destination sees through its lookups alone: these keep their order, the others are free.
    """
    if not is_injective(components(to, sizes), element_size):
        return dimensions[::-1]
    free = sorted(_forwards(dimension, shift) for dimension in dimensions if dimension[0])
    bound = [dimension for dimension in reversed(dimensions) if not dimension[0]]
    weight = max(abs(lookup.stride) for lookup in to.lookups)
    inside = [dimension for dimension in free if dimension[0] < weight]
    return [*inside, *bound, *free[len(inside) :]]


def is_injective(varying: Iterable[tuple[int, int]], element_size: int) -> bool:
    """Whether sizes and strides give every coordinate bytes of its own; False where it takes more than a look."""
    reach = element_size
    for stride, size in sorted((abs(stride), size) for size, stride in varying if size > 1 and stride):
        if stride < reach:
            return False
        reach += (size - 1) * stride
    return True


def merged(moves: Sequence[Move]) -> tuple[Move, ...]:
    """Simple moves, with those that follow each other and continue each other at both ends as one."""
    result: list[Move] = []
    for move in moves:
        while result and (both := _continued(result[-1], move)):
            result.pop()
            move = both  # noqa: PLW2901  # grows, and may continue the one before
        result.append(move)
    return tuple(result)


def _continued(first: Move, second: Move) -> Move | None:
    """One simple move that does two, or None. What the first writes, the second must not read."""
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
        further, reads = after.offset - source.offset, (1, *source.strides)
    elif isinstance(source, Fill) and source == after and first.element_size % len(source.pattern) == 0:
        further, reads = 0, (0,) * (1 + len(to.strides))
    else:
        # A fill that is cut within its pattern would have to be turned.
        return None
    lengths, others = [first.element_size, *first.sizes], [second.element_size, *second.sizes]
    differing = [d for d, (a, b) in enumerate(zip(lengths, others, strict=True)) if a != b]
    by, writes = after_to.offset - to.offset, (1, *to.strides)
    for d in differing or range(len(lengths)):
        if len(differing) <= 1 and (by, further) == (lengths[d] * writes[d], lengths[d] * reads[d]):
            lengths[d] += others[d]
            # The dimension that grew may now continue into the next.
            return _simplify(Move(tuple(lengths[1:]), to, source, lengths[0]))
    return None
