"""Functions that move boxes of one array: transposed, reversed, broadcast, sliced, rolled, repeated, or rearranged."""

import cython
from cython.cimports.anydml.core.arguments import (
    fits_product,
    normalize_axis,
    read_axis,
    read_count,
    read_ints,
    read_one_or_more,
)
from cython.cimports.anydml.core.arrays import RANK
from cython.cimports.anydml.core.calls import add_move, begin, finish, finish_view, make_result

TO_END = object()


def set_dimension(c, d, size, stride):
    """Set the size and the stride in x of a box's dimension."""
    c.n[d] = size
    c.b[d] = stride


def broadcast_strides(v, rank, n, s):
    """Compute the strides of an array that is broadcast to a shape; returns 1 if it does not fit."""
    more = rank - v.rank
    for d in range(rank):
        s[d] = 0
        if d >= more and v.n[d - more] != 1:
            if n[d] != v.n[d - more]:
                return 1
            s[d] = v.s[d - more]
    return more < 0


def read_windows(rank, sizes, offsets, lengths, strides, first, step, count):
    """Compute the first element, step and count of a strided window on each axis; returns 1 to fall back to Python.

    If `lengths` is `TO_END`, windows reach to the end, and steps, by default 1, must be positive.
    """
    length: int64_t[64]
    reach_end: cython.bint = lengths is TO_END
    if read_ints(offsets, first, RANK) != rank or not (reach_end or read_ints(lengths, length, RANK) == rank):
        return 1
    if not (reach_end and strides is None) and read_ints(strides, step, RANK) != rank:
        return 1
    for d in range(rank):
        if first[d] < 0 or first[d] > sizes[d]:
            return 1
        if reach_end:
            length[d] = sizes[d] - first[d]
            step[d] = 1 if strides is None else max(step[d], 0)
        if length[d] < 0 or length[d] > sizes[d] - first[d]:
            return 1
        # The lowest int64 has no positive counterpart.
        if step[d] == 0 or step[d] < -(cython.cast(int64_t, 1) << 62):
            return 1
        count[d] = 0
        if length[d]:
            count[d] = 1 + (length[d] - 1) // (step[d] if step[d] > 0 else -step[d])
            first[d] += 0 if step[d] > 0 else length[d] - 1
    return 0


def slice1(x, offsets, lengths, strides, sizes, out):
    """Copy a window (see `read_windows`): its first elements, if `sizes` is not None.

    The compiled rule and its checks would take 1.13 times as long.
    """
    c: Call[1]
    at: int64_t[64]
    step: int64_t[64]
    most: int64_t[64]
    if begin(c, x):
        return None
    if read_windows(c.x.rank, c.x.n, offsets, lengths, strides, at, step, most):
        return None
    if sizes is not None and read_ints(sizes, c.n, RANK) != c.x.rank:
        return None
    source: cython.p_char = c.x.data
    for d in range(c.x.rank):
        size = most[d] if sizes is None else c.n[d]
        if size < 0 or size > most[d]:
            return None
        source += at[d] * c.x.s[d]
        set_dimension(c, d, size, step[d] * c.x.s[d] if size > 1 else 0)
    return finish_view(c, out, c.x.rank, c.n, source, c.b)


def roll(x, shift, axis, out):
    """Shift elements along axes; those that leave at the end return at the beginning."""
    c: Call[1]
    shifts: int64_t[64]
    axes: int64_t[64]
    by: int64_t[64]
    where: cython.int[64]
    if begin(c, x):
        return None
    count = read_one_or_more(axis, axes, RANK)
    many = read_one_or_more(shift, shifts, RANK)
    if count < 0 or many < 0 or (many != 1 and many != count):
        return None
    for d in range(c.x.rank):
        by[d] = 0
        c.n[d] = c.x.n[d]
    for i in range(count):
        d = normalize_axis(axes[i], c.x.rank)
        if d < 0:
            return None
        if c.n[d]:
            by[d] = (by[d] + shifts[i if many > 1 else 0] % c.n[d] + c.n[d]) % c.n[d]
    rolled: cython.int = 0
    for d in range(c.x.rank):
        if by[d]:
            where[rolled] = d
            rolled += 1
    if rolled > 5:
        # Too many moves: one per corner.
        return None
    found = make_result(c, out, c.x.rank, c.x.n)
    for corner in range(1 << rolled):
        at: cython.p_char = c.to.data
        source: cython.p_char = c.x.data
        for i in range(rolled):
            d = where[i]
            if corner >> i & 1:
                c.n[d] = by[d]
                source += (c.x.n[d] - by[d]) * c.x.s[d]
            else:
                c.n[d] = c.x.n[d] - by[d]
                at += by[d] * c.to.s[d]
        add_move(c, at, source, c.x.rank, c.n, c.to.s, c.x.s)
    return finish(c, found)


def finish_merged(c, out, rank, each):
    """Move a box to a result whose dimension d merges each[d] dimensions of the box; two if `each` is NULL."""
    n: int64_t[64]
    last: cython.int = 0
    for d in range(rank):
        n[d] = 1
        for _ in range(each[d] if each else 2):
            if not fits_product(n[d], c.n[last]):
                return None
            n[d] *= c.n[last]
            last += 1
    found = make_result(c, out, rank, n)
    k: cython.int = last
    for d in range(rank - 1, -1, -1):
        stride = c.to.s[d]
        for _ in range(each[d] if each else 2):
            k -= 1
            c.a[k] = stride
            stride *= c.n[k]
    add_move(c, c.to.data, c.x.data, last, c.n, c.a, c.b)
    return finish(c, found)


def tile(x, repeats, out):
    """``result[c] = x[c mod x.shape]``."""
    c: Call[1]
    times: int64_t[64]
    if begin(c, x):
        return None
    count = read_ints(repeats, times, RANK)
    if count < 0:
        return None
    rank = max(count, c.x.rank)
    for d in range(rank):
        own = d - (rank - c.x.rank)
        set_dimension(c, 2 * d, times[d - (rank - count)] if d >= rank - count else 1, 0)
        set_dimension(c, 2 * d + 1, c.x.n[own] if own >= 0 else 1, c.x.s[own] if own >= 0 else 0)
        if c.n[2 * d] < 0:
            return None
    return finish_merged(c, out, rank, cython.NULL)


def repeat_each(c, times, out):
    """``result[c] = x[c // times]``: repeat each element consecutively."""
    for d in range(c.x.rank):
        set_dimension(c, 2 * d, c.x.n[d], c.x.s[d])
        set_dimension(c, 2 * d + 1, times[d], 0)
    return finish_merged(c, out, c.x.rank, cython.NULL)


def repeat(x, repeats, axis, out):
    """Repeat each element along an axis."""
    c: Call[1]
    times: int64_t[64]
    if begin(c, x) or (count := read_count(repeats)) < 0 or (along := read_axis(axis, c.x.rank)) < 0:
        return None
    for d in range(c.x.rank):
        times[d] = count if d == along else 1
    return repeat_each(c, times, out)


def upsample(x, scales, out):
    """Upsample by whole factors with nearest neighbours."""
    c: Call[1]
    times: int64_t[64]
    if begin(c, x) or read_ints(scales, times, RANK) != c.x.rank:
        return None
    for d in range(c.x.rank):
        if times[d] < 1:
            return None
    return repeat_each(c, times, out)


def rearrange_blocks(x, block_size, order, to_space, out):
    """Convert blocks of pixels to channels, or channels to blocks of pixels: a permutation of six dimensions."""
    c: Call[1]
    if begin(c, x) or c.x.rank != 4 or type(order) is not str:
        return None
    block = read_count(block_size)
    if not 1 <= block < 1 << 20 or (order != "depth_column_row" and order != "column_row_depth"):
        return None
    # Whether, among the channels, x's own ones are innermost.
    is_inner: cython.bint = order == "depth_column_row"
    depth, height, width = c.x.n[1], c.x.n[2], c.x.n[3]
    area = block * block
    set_dimension(c, 0, c.x.n[0], c.x.s[0])
    if to_space:
        if depth % area:
            return None
        set_dimension(c, 1, depth // area, c.x.s[1] * (1 if is_inner else area))
        stride = c.x.s[1] * (depth // area if is_inner else 1)
        set_dimension(c, 2, height, c.x.s[2])
        set_dimension(c, 3, block, block * stride)
        set_dimension(c, 4, width, c.x.s[3])
        set_dimension(c, 5, block, stride)
        return finish_merged(c, out, 4, b"\1\1\2\2")
    if height % block or width % block:
        return None
    first: cython.int = 1 if is_inner else 2
    set_dimension(c, 3 if is_inner else 1, depth, c.x.s[1])
    set_dimension(c, first, block, c.x.s[2])
    set_dimension(c, first + 1, block, c.x.s[3])
    set_dimension(c, 4, height // block, block * c.x.s[2])
    set_dimension(c, 5, width // block, block * c.x.s[3])
    return finish_merged(c, out, 4, b"\1\3\1\1")


def depth_to_space(x, block_size, order, out):
    """Convert channels to blocks of pixels."""
    return rearrange_blocks(x, block_size, order, True, out)


def space_to_depth(x, block_size, order, out):
    """Convert blocks of pixels to channels."""
    return rearrange_blocks(x, block_size, order, False, out)
