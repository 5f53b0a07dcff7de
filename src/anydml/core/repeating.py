# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The functions whose one array goes to several places, or around: rolled, repeated, and as blocks of pixels.

Each gives None for what Python has to do, or refuse.
"""

import cython
from cython.cimports.anydml.core.arrays import RANK, Kind, View, number, numbers, one, read
from cython.cimports.anydml.core.batch import Batch, add, begin, run_all
from cython.cimports.anydml.core.indices import is_text
from cython.cimports.anydml.core.views import axis_of, is_product, result
from cython.cimports.libc.stdint import int64_t


def roll(x, shift, axis, out):
    """The elements further along axes; what leaves at the end comes back at the beginning."""
    v: View
    to: View
    k: Kind
    batch: Batch
    shifts: int64_t[64]
    axes: int64_t[64]
    by: int64_t[64]
    n: int64_t[64]
    d: cython.int
    i: cython.int
    if read(x, cython.address(v), cython.address(k)):
        return None
    count: cython.int = 1
    many: cython.int = 1
    if one(axis, axes):
        count = numbers(axis, axes, RANK)
    if one(shift, shifts):
        many = numbers(shift, shifts, RANK)
    if count < 0 or many < 0 or (many != 1 and many != count):
        return None
    for d in range(v.rank):
        by[d] = 0
    for i in range(count):
        if axes[i] < -v.rank or axes[i] >= v.rank:
            return None
        d = axes[i] + v.rank if axes[i] < 0 else axes[i]
        if v.n[d]:
            by[d] = (by[d] + shifts[i if many > 1 else 0] % v.n[d] + v.n[d]) % v.n[d]
    rolled: cython.int = 0
    where: cython.int[64]
    for d in range(v.rank):
        if by[d]:
            where[rolled] = d
            rolled += 1
    if rolled > 5:
        # As many moves as corners.
        return None
    found = result(cython.address(k), cython.address(v), out, v.rank, v.n, cython.address(to))
    if found is None:
        return None
    begin(cython.address(batch))
    for i in range(v.rank):
        n[i] = v.n[i]
    corner: cython.int
    for corner in range(1 << rolled):
        at: cython.p_char = to.data
        source: cython.p_char = v.data
        for i in range(rolled):
            d = where[i]
            if corner >> i & 1:
                n[d] = by[d]
                source += (v.n[d] - by[d]) * v.s[d]
            else:
                n[d] = v.n[d] - by[d]
                at += by[d] * to.s[d]
        if add(cython.address(batch), at, source, k.element, v.rank, n, to.s, v.s):
            return None
    run_all(cython.address(batch))
    return found


def in_pairs(k, v, rank, box, b, out):
    """A result each of whose dimensions is two of a box: sizes and strides of what moves there."""
    to: View
    batch: Batch
    n: int64_t[64]
    a: int64_t[128]
    d: cython.int
    for d in range(rank):
        if not is_product(box[2 * d], box[2 * d + 1]):
            return None
        n[d] = box[2 * d] * box[2 * d + 1]
    found = result(k, v, out, rank, n, cython.address(to))
    if found is None:
        return None
    for d in range(rank):
        a[2 * d] = box[2 * d + 1] * to.s[d]
        a[2 * d + 1] = to.s[d]
    begin(cython.address(batch))
    if add(cython.address(batch), to.data, v.data, k.element, 2 * rank, box, a, b):
        return None
    run_all(cython.address(batch))
    return found


def tile(x, repeats, out):
    """``result[c] = x[c mod x.shape]``."""
    v: View
    k: Kind
    times: int64_t[64]
    box: int64_t[128]
    b: int64_t[128]
    d: cython.int
    own: cython.int
    if read(x, cython.address(v), cython.address(k)):
        return None
    count: cython.int = numbers(repeats, times, RANK)
    if count < 0:
        return None
    rank: cython.int = max(count, v.rank)
    for d in range(rank):
        own = d - (rank - v.rank)
        box[2 * d] = times[d - (rank - count)] if d >= rank - count else 1
        box[2 * d + 1] = v.n[own] if own >= 0 else 1
        if box[2 * d] < 0:
            return None
        b[2 * d] = 0
        b[2 * d + 1] = v.s[own] if own >= 0 else 0
    return in_pairs(cython.address(k), cython.address(v), rank, box, b, out)


def several(k, v, times, out):
    """``result[c] = x[c // times]``: each element several times, one after the other."""
    box: int64_t[128]
    b: int64_t[128]
    d: cython.int
    for d in range(v.rank):
        box[2 * d] = v.n[d]
        box[2 * d + 1] = times[d]
        b[2 * d] = v.s[d]
        b[2 * d + 1] = 0
    return in_pairs(k, v, v.rank, box, b, out)


def repeat(x, repeats, axis, out):
    """Each element along an axis several times."""
    v: View
    k: Kind
    count: int64_t
    along: int64_t
    times: int64_t[64]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)) or number(repeats, cython.address(count)) or count < 0:
        return None
    if axis_of(axis, v.rank, cython.address(along)):
        return None
    for d in range(v.rank):
        times[d] = count if d == along else 1
    return several(cython.address(k), cython.address(v), times, out)


def upsample(x, scales, out):
    """The nearest neighbour at a multiple of the size."""
    v: View
    k: Kind
    times: int64_t[64]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)) or numbers(scales, times, RANK) != v.rank:
        return None
    for d in range(v.rank):
        if times[d] < 1:
            return None
    return several(cython.address(k), cython.address(v), times, out)


def blocks(x, block_size, order, to_space, out):
    """Blocks of pixels as channels, or channels as blocks of pixels: six dimensions in another order."""
    v: View
    to: View
    k: Kind
    batch: Batch
    block: int64_t
    n: int64_t[4]
    box: int64_t[6]
    a: int64_t[6]
    b: int64_t[6]
    if read(x, cython.address(v), cython.address(k)) or v.rank != 4 or number(block_size, cython.address(block)):
        return None
    if not is_text(order) or not 1 <= block < 1 << 20 or (order != "depth_column_row" and order != "column_row_depth"):
        return None
    n[0] = v.n[0]
    if to_space:
        if v.n[1] % (block * block):
            return None
        n[1] = v.n[1] // (block * block)
        n[2] = v.n[2] * block
        n[3] = v.n[3] * block
    else:
        if v.n[2] % block or v.n[3] % block:
            return None
        n[1] = v.n[1] * block * block
        n[2] = v.n[2] // block
        n[3] = v.n[3] // block
    found = result(cython.address(k), cython.address(v), out, 4, n, cython.address(to))
    if found is None:
        return None
    # N, rows and columns of a block, channels of the pixels, and rows and columns of blocks.
    box[0] = n[0]
    box[1] = box[2] = block
    box[3] = n[1] if to_space else v.n[1]
    box[4] = v.n[2] if to_space else n[2]
    box[5] = v.n[3] if to_space else n[3]
    first: cython.bint = order == "depth_column_row"
    if to_space:
        of_depth(v.s, block, box[3], first, b)
        of_space(to.s, block, a)
    else:
        of_depth(to.s, block, box[3], first, a)
        of_space(v.s, block, b)
    begin(cython.address(batch))
    if add(cython.address(batch), to.data, v.data, k.element, 6, box, a, b):
        return None
    run_all(cython.address(batch))
    return found


def of_depth(s, block, channels, blocks_first, found):
    """The strides of the six dimensions on the side of the channels."""
    found[0] = s[0]
    found[1] = s[1] * block * (channels if blocks_first else 1)
    found[2] = s[1] * (channels if blocks_first else 1)
    found[3] = s[1] * (1 if blocks_first else block * block)
    found[4] = s[2]
    found[5] = s[3]


def of_space(s, block, found):
    """The same on the side of the pixels."""
    found[0] = s[0]
    found[1] = s[2]
    found[2] = s[3]
    found[3] = s[1]
    found[4] = s[2] * block
    found[5] = s[3] * block


def depth_to_space(x, block_size, order, out):
    """Channels as blocks of pixels."""
    return blocks(x, block_size, order, True, out)


def space_to_depth(x, block_size, order, out):
    """Blocks of pixels as channels."""
    return blocks(x, block_size, order, False, out)
