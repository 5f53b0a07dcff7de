"""`diagonal_matrix` and `unfold`: diagonals and sliding windows as boxes."""

import cython
from cython.cimports.anydml.core.arguments import fits_product, read_int, read_ints
from cython.cimports.anydml.core.arrays import RANK, new_result
from cython.cimports.anydml.core.calls import Call, add_fill, add_move, finish, make_result
from cython.cimports.anydml.core.filling import add_inside, begin_fill, begin_zero_fill, fill_around
from cython.cimports.anydml.core.views import set_dimension

EVERY = 1 << 62
"""More diagonals than any matrix has."""


def cuts(height, width, first, end):
    """Return a band's first row, its first not cut off on the left, its first cut off on the right, and its end."""
    top = min(max(0, 1 - end), height)
    bottom = max(min(height, width - first), top)
    return top, min(max(-first, top), bottom), min(max(width - end, top), bottom), bottom


def diagonal_matrix(x, value, begin_at, end, out):
    """Copy x with `value` on diagonals `begin_at` to `end` − 1, wrapping around if begin_at > end."""
    c: Call[1]
    first: int64_t
    last: int64_t
    if read_int(begin_at, cython.address(first)) or read_int(end, cython.address(last)):
        return None
    if not (-EVERY < first < EVERY and -EVERY < last < EVERY):
        return None
    pattern = begin_fill(c, x, value)
    if pattern is None or not 2 <= c.x.rank < RANK:
        return None
    found = make_result(c, out, c.x.rank, c.x.n)
    add_move(c, c.to.data, c.x.data, c.x.rank, c.x.n, c.to.s, c.x.s)
    lead: cython.int = c.x.rank - 2
    for d in range(lead):
        c.n[d] = c.x.n[d]
        c.a[d] = c.to.s[d]
    height: int64_t = c.x.n[lead]
    width: int64_t = c.x.n[lead + 1]
    bands = [(first, last)] if first <= last else [(-EVERY, last), (first, EVERY)]
    row: int64_t
    inside: int64_t
    border: int64_t
    bottom: int64_t
    for first, last in bands:
        row, inside, border, bottom = cuts(height, width, first, last)
        while first < last and row < bottom:
            is_left: cython.bint = row < inside
            is_right: cython.bint = row >= border
            left: int64_t = 0 if is_left else row + first
            # Rows of one length are one box; those of a triangle are written one by one.
            c.n[lead] = 1 if is_left != is_right else (inside if is_left else border) - row
            c.n[lead + 1] = (width if is_right else row + last) - left
            c.a[lead] = c.to.s[lead] + (0 if is_left else c.to.s[lead + 1])
            c.a[lead + 1] = c.to.s[lead + 1]
            add_fill(c, c.to.data + row * c.to.s[lead] + left * c.to.s[lead + 1], lead + 2, c.n, c.a)
            row += c.n[lead]
    return finish(c, found)


def read_bounded(given, count, found, usual, least):
    """Read `count` numbers from `least` to 2³¹ − 1; None means `usual` for all. Returns 1 to fall back to Python."""
    if given is not None and read_ints(given, found, 2 * RANK) != count:
        return 1
    for d in range(count):
        if given is None:
            found[d] = usual
        if not least <= found[d] < cython.cast(int64_t, 1) << 31:
            return 1
    return 0


def unfold(x, window_sizes, strides, dilations, pads, out):
    """Return each position of a sliding window as a column; zeros outside x."""
    c: Call[1]
    window: int64_t[64]
    step: int64_t[64]
    apart: int64_t[64]
    around: int64_t[128]
    count: int64_t[64]
    start: int64_t[64]
    zero = begin_zero_fill(c, x)
    if zero is None or c.x.rank < 3 or window_sizes is None:
        return None
    rank: cython.int = c.x.rank - 2
    if read_bounded(window_sizes, rank, window, 1, 1) or read_bounded(strides, rank, step, 1, 1):
        return None
    if read_bounded(dilations, rank, apart, 1, 1) or read_bounded(pads, 2 * rank, around, 0, 0):
        return None
    windows: int64_t = 1
    columns: int64_t = 1
    for d in range(rank):
        reach: int64_t = c.x.n[2 + d] + around[d] + around[rank + d] - apart[d] * (window[d] - 1) - 1
        if reach < 0:
            return None
        count[d] = reach // step[d] + 1
        if not (fits_product(windows, window[d]) and fits_product(columns, count[d])):
            return None
        windows *= window[d]
        columns *= count[d]
    if not fits_product(c.x.n[1], windows):
        return None
    c.n[0] = c.x.n[0]
    c.n[1] = c.x.n[1] * windows
    c.n[2] = columns
    found = make_result(c, out, 3, c.n)
    if found is None:
        return None
    # The box: N, C, the elements of a window, and its positions.
    into: cython.p_char = c.to.data
    c.a[0] = c.to.s[0]
    c.a[1] = c.to.s[1] * windows
    row: int64_t = c.to.s[1]
    column: int64_t = c.to.s[2]
    for d in range(rank - 1, -1, -1):
        c.a[2 + d] = row
        c.a[2 + rank + d] = column
        row *= window[d]
        column *= count[d]
    if pads is not None:
        # Windows slide over a copy of x with zeros around it.
        start[0] = start[1] = 0
        c.n[1] = c.x.n[1]
        for d in range(rank):
            start[2 + d] = around[d]
            c.n[2 + d] = around[d] + c.x.n[2 + d] + around[rank + d]
        padded = new_result(c.kind, rank + 2, c.n, c.to)
        if padded is None:
            return None
        add_inside(c, start)
        fill_around(c, start, c.x.n, cython.NULL)
        c.x.data, c.x.s = c.to.data, c.to.s
    for d in range(2):
        set_dimension(c, d, c.x.n[d], c.x.s[d])
    for d in range(rank):
        set_dimension(c, 2 + d, window[d], apart[d] * c.x.s[2 + d])
        set_dimension(c, 2 + rank + d, count[d], step[d] * c.x.s[2 + d])
    add_move(c, into, c.x.data, 2 + 2 * rank, c.n, c.a, c.b)
    return finish(c, found)
