"""Simplification of moves to the one shape that kernels are written for, and to as few as possible.

The moves of a call are collected here, and run in batches.
"""

import cython
from cython.cimports.anydml.core.arrays import element_count
from cython.cimports.anydml.core.moving import (
    ANYDML_CLAMP,
    ANYDML_RANK,
    ANYDML_REFUSE,
    Lookup,
    check_indices,
    offset_by,
    run,
)
from cython.cimports.anydml.core.ranges import no_read_conflict
from cython.cimports.libc.stdint import int32_t


def simplify(m, rank, n, a, b, strides):
    """Set the box of a move, and the strides of its lookups; all its other fields are already set.

    Sizes of 1 are dropped; strides of the destination become positive and sorted, the largest first; contiguous
    neighbours merge, the innermost into the element. If lookups in the destination write an element twice, the later
    write wins: dimensions then keep their order.

    A dimension has size n[d], and stride a[d] at the destination, b[d] at the source and strides[k][d] in the indices
    of lookup k. Returns 0; 1 if nothing moves; −1 if there are more dimensions than a move can have.
    """
    count: cython.int = 0
    lookup_count: cython.int = m.lookups
    is_sorted: cython.bint = True
    for k in range(lookup_count):
        is_sorted = is_sorted and m.lookup[k].into != -2
    for d in range(rank):
        size = n[d]
        if size == 1:
            continue
        if size == 0:
            return 1
        p = a[d]
        q = b[d]
        if lookup_count:
            column = p
            for k in range(lookup_count):
                column |= strides[k][d]
            if column == 0:
                # An element that is overwritten repeatedly is written once, with its last value.
                m.source = offset_by(m.source, (size - 1) * q)
                continue
        elif count and m.a[count - 1] == p * size and m.b[count - 1] == q * size:
            # In row-major order most dimensions that merge are already adjacent.
            m.n[count - 1] *= size
            m.a[count - 1] = p
            m.b[count - 1] = q
            continue
        if count == ANYDML_RANK:
            return -1
        sign = 1
        if p < 0 and is_sorted:
            sign = -1
            m.to = offset_by(m.to, p * (size - 1))
            m.source = offset_by(m.source, q * (size - 1))
            for k in range(lookup_count):
                m.lookup[k].at = offset_by(m.lookup[k].at, strides[k][d] * (size - 1))
        j = count
        while j > 0 and is_sorted and m.a[j - 1] < p * sign:
            copy_dimension(m, j, j - 1)
            j -= 1
        m.n[j] = size
        m.a[j] = p * sign
        m.b[j] = q * sign
        for k in range(lookup_count):
            m.lookup[k].b[j] = strides[k][d] * sign
        count += 1
    k = 0
    for j in range(1, count):
        if can_merge(m, k, j):
            merge_into(m, k, j)
        else:
            k += 1
            if k < j:
                copy_dimension(m, k, j)
    m.rank = k + 1 if count else 0
    if count and m.a[k] == m.element and (m.pattern or m.b[k] == m.element):
        column = 0
        for j in range(lookup_count):
            column |= m.lookup[j].b[k]
        if column == 0:
            m.rank = k
            m.element *= m.n[k]
    return 0 if m.element else 1


def copy_dimension(m, to, source):
    """Copy a dimension's size and strides to another."""
    m.n[to] = m.n[source]
    m.a[to] = m.a[source]
    m.b[to] = m.b[source]
    for k in range(m.lookups):
        m.lookup[k].b[to] = m.lookup[k].b[source]


def can_merge(m, outer, inner):
    """Whether two dimensions can merge at both ends and in all lookups."""
    size: int64_t = m.n[inner]
    if m.a[outer] != m.a[inner] * size or m.b[outer] != m.b[inner] * size:
        return False
    for k in range(m.lookups):
        if m.lookup[k].b[outer] != m.lookup[k].b[inner] * size:
            return False
    return True


def merge_into(m, outer, inner):
    """Merge the inner one of two dimensions into the outer one."""
    size: int64_t = m.n[outer]
    copy_dimension(m, outer, inner)
    m.n[outer] *= size


def extend_move(first, second, are_apart):
    """Extend a simplified move by another one; returns False if that one does not continue it at both ends.

    Both are boxes with the same strides, which differ in at most one size, and meet along that dimension. Neither may
    write memory that the other reads: `are_apart` states that this is known, else it is checked.
    """
    differing: cython.int = -2
    by: int64_t = cython.cast(int64_t, cython.cast(cython.size_t, second.to) - cython.cast(cython.size_t, first.to))
    further: int64_t = cython.cast(
        int64_t, cython.cast(cython.size_t, second.source) - cython.cast(cython.size_t, first.source)
    )
    if first.rank != second.rank or first.pattern or second.pattern or first.lookups or second.lookups:
        return False
    if first.element != second.element:
        differing = -1
    for d in range(first.rank):
        if first.a[d] != second.a[d] or first.b[d] != second.b[d]:
            return False
        if first.n[d] != second.n[d]:
            if differing != -2:
                return False
            differing = d
    if differing < 0 and by == first.element and further == first.element:
        if not (are_apart or no_read_conflict(first, second)):
            return False
        first.element += second.element
        d = first.rank - 1
        if d >= 0 and first.a[d] == first.element and first.b[d] == first.element:
            # Complete rows are contiguous.
            first.element *= first.n[d]
            first.rank = d
        return True
    for d in range(first.rank):
        if (differing == d or differing == -2) and by == first.n[d] * first.a[d] and further == first.n[d] * first.b[d]:
            if not (are_apart or no_read_conflict(first, second)):
                return False
            first.n[d] += second.n[d]
            return d == 0 or not can_merge(first, d - 1, d) or merge_dimension(first, d)
    return False


def merge_dimension(m, d):
    """Merge a dimension into the one before it; returns True."""
    merge_into(m, d - 1, d)
    for k in range(d, m.rank - 1):
        copy_dimension(m, k, k + 1)
    m.rank -= 1
    return True


def has_invalid_index(m, lookup_mask):
    """Whether lookups in a bit mask have indices out of range; those of skipped elements do not count."""
    refused: int32_t = 0
    zero_strides: int64_t[16]
    lookups: Lookup[16]
    strides: cython.pointer(cython.const[int64_t])[16]
    checked_move: Move = m[0]
    checked_move.lookup = lookups
    for k in range(m.rank):
        zero_strides[k] = 0
    checked_or_inner: cython.int = lookup_mask
    for k in range(m.lookups - 1, -1, -1):
        lookups[k] = m.lookup[k]
        lookups[k].refused = cython.NULL
        strides[k] = m.lookup[k].b
        if lookups[k].into >= 0 and checked_or_inner >> lookups[k].into & 1:
            checked_or_inner |= 1 << k
        if lookup_mask >> k & 1:
            lookups[k].refused = cython.address(refused)
            lookups[k].outside = ANYDML_REFUSE
        elif not checked_or_inner >> k & 1:
            lookups[k].outside = ANYDML_CLAMP
    # With strides of 0 at both ends, repeated indices are checked once.
    if simplify(cython.address(checked_move), m.rank, m.n, zero_strides, zero_strides, strides) == 0:
        check_indices(cython.address(checked_move))
    return refused != 0


def add_move(c, to, source, rank, n, a, b):
    """Add a move of a box without lookups."""
    return keep_move(c, simplify(next_move(c, to, source, 0), rank, n, a, b, cython.NULL))


def add_fill(c, to, rank, n, a):
    """Add a move that fills a box with the call's pattern."""
    return keep_move(c, simplify(next_move(c, to, c.pattern, c.kind.element), rank, n, a, ZEROS, cython.NULL))


def next_move(c, to, source, pattern):
    """Return the next move, whose box the caller must set."""
    m: cython.pointer(Move) = c.moves + c.count
    m.to = to
    m.source = source
    m.element = c.kind.element
    m.pattern = pattern
    m.lookups = 0
    return m


def keep_move(c, simplified):
    """Keep the last move, unless it is empty or merges into the one before it."""
    if simplified:
        c.is_unfit |= simplified < 0
    elif not c.count or not extend_move(c.moves + c.count - 1, c.moves + c.count, True):
        c.count += 1
        if c.count == MAX_PENDING:
            c.total = c.kind.element * max(element_count(c.x.rank, c.x.sizes), element_count(c.to.rank, c.to.sizes))
            return run_moves(c)
    return 0


def run_moves(c):
    """Run the pending moves and clear them.

    Raises:
        KeyboardInterrupt: or another exception that a signal handler raises; `count` is then −1.
    """
    count = c.count
    c.count = -1
    if not c.is_unfit:
        run(c.moves, count, c.total)
    c.count = 0
    return 0
