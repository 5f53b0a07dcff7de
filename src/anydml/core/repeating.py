"""Functions that roll or repeat an array, or convert between channels and blocks of pixels.

Each returns None to fall back to Python, which handles or rejects the call.
"""

import cython
from cython.cimports.anydml.core.arguments import (
    fits_product,
    is_str,
    normalize_axis,
    read_axis,
    read_int,
    read_ints,
    read_single_int,
)
from cython.cimports.anydml.core.arrays import RANK
from cython.cimports.anydml.core.calls import Call, add_move, begin, finish, make_result
from cython.cimports.libc.stdint import int64_t


def roll(x, shift, axis, out):
    """Shift elements along axes; those that leave at the end return at the beginning."""
    c: Call[1]
    shifts: int64_t[64]
    axes: int64_t[64]
    by: int64_t[64]
    where: cython.int[64]
    if begin(c, x):
        return None
    count: cython.int = 1
    many: cython.int = 1
    if read_single_int(axis, axes):
        count = read_ints(axis, axes, RANK)
    if read_single_int(shift, shifts):
        many = read_ints(shift, shifts, RANK)
    if count < 0 or many < 0 or (many != 1 and many != count):
        return None
    for d in range(c.x.rank):
        by[d] = 0
        c.n[d] = c.x.n[d]
    for i in range(count):
        if normalize_axis(axes + i, c.x.rank):
            return None
        d = axes[i]
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
    if found is None:
        return None
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


def finish_pairs(c, rank, out):
    """Move a box to a result each of whose dimensions is a pair of the box's."""
    n: int64_t[64]
    for d in range(rank):
        if not fits_product(c.n[2 * d], c.n[2 * d + 1]):
            return None
        n[d] = c.n[2 * d] * c.n[2 * d + 1]
    found = make_result(c, out, rank, n)
    if found is None:
        return None
    for d in range(rank):
        c.a[2 * d] = c.n[2 * d + 1] * c.to.s[d]
        c.a[2 * d + 1] = c.to.s[d]
    add_move(c, c.to.data, c.x.data, 2 * rank, c.n, c.a, c.b)
    return finish(c, found)


def tile(x, repeats, out):
    """``result[c] = x[c mod x.shape]``."""
    c: Call[1]
    times: int64_t[64]
    if begin(c, x):
        return None
    count: cython.int = read_ints(repeats, times, RANK)
    if count < 0:
        return None
    rank: cython.int = max(count, c.x.rank)
    for d in range(rank):
        own = d - (rank - c.x.rank)
        c.n[2 * d] = times[d - (rank - count)] if d >= rank - count else 1
        c.n[2 * d + 1] = c.x.n[own] if own >= 0 else 1
        if c.n[2 * d] < 0:
            return None
        c.b[2 * d] = 0
        c.b[2 * d + 1] = c.x.s[own] if own >= 0 else 0
    return finish_pairs(c, rank, out)


def repeat_each(c, times, out):
    """``result[c] = x[c // times]``: repeat each element consecutively."""
    for d in range(c.x.rank):
        c.n[2 * d] = c.x.n[d]
        c.n[2 * d + 1] = times[d]
        c.b[2 * d] = c.x.s[d]
        c.b[2 * d + 1] = 0
    return finish_pairs(c, c.x.rank, out)


def repeat(x, repeats, axis, out):
    """Repeat each element along an axis."""
    c: Call[1]
    count: int64_t
    along: int64_t
    times: int64_t[64]
    if begin(c, x) or read_int(repeats, cython.address(count)) or count < 0:
        return None
    if read_axis(axis, c.x.rank, cython.address(along)):
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
    block: int64_t
    n: int64_t[4]
    if begin(c, x) or c.x.rank != 4 or read_int(block_size, cython.address(block)):
        return None
    if not is_str(order) or not 1 <= block < 1 << 20 or (order != "depth_column_row" and order != "column_row_depth"):
        return None
    n[0] = c.x.n[0]
    if to_space:
        if c.x.n[1] % (block * block):
            return None
        n[1] = c.x.n[1] // (block * block)
        n[2] = c.x.n[2] * block
        n[3] = c.x.n[3] * block
    else:
        if c.x.n[2] % block or c.x.n[3] % block:
            return None
        n[1] = c.x.n[1] * block * block
        n[2] = c.x.n[2] // block
        n[3] = c.x.n[3] // block
    found = make_result(c, out, 4, n)
    if found is None:
        return None
    # N, rows and columns of a block, channels of the pixels, and rows and columns of blocks.
    channels = n[1] if to_space else c.x.n[1]
    c.n[0] = n[0]
    c.n[1] = c.n[2] = block
    c.n[3] = channels
    c.n[4] = c.x.n[2] if to_space else n[2]
    c.n[5] = c.x.n[3] if to_space else n[3]
    first: cython.bint = order == "depth_column_row"
    if to_space:
        depth_strides(c.x.s, block, channels, first, c.b)
        space_strides(c.to.s, block, c.a)
    else:
        depth_strides(c.to.s, block, channels, first, c.a)
        space_strides(c.x.s, block, c.b)
    add_move(c, c.to.data, c.x.data, 6, c.n, c.a, c.b)
    return finish(c, found)


def depth_strides(s, block, channels, blocks_first, found):
    """Compute the strides of the six dimensions in the array of more channels."""
    found[0] = s[0]
    found[1] = s[1] * block * (channels if blocks_first else 1)
    found[2] = s[1] * (channels if blocks_first else 1)
    found[3] = s[1] * (1 if blocks_first else block * block)
    found[4] = s[2]
    found[5] = s[3]


def space_strides(s, block, found):
    """Compute the strides of the six dimensions in the array of more pixels."""
    found[0] = s[0]
    found[1] = s[2]
    found[2] = s[3]
    found[3] = s[1]
    found[4] = s[2] * block
    found[5] = s[3] * block


def depth_to_space(x, block_size, order, out):
    """Convert channels to blocks of pixels."""
    return rearrange_blocks(x, block_size, order, True, out)


def space_to_depth(x, block_size, order, out):
    """Convert blocks of pixels to channels."""
    return rearrange_blocks(x, block_size, order, False, out)
