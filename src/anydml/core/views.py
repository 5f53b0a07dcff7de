"""Functions that copy a view of one array: transposed, reversed, broadcast or sliced.

Each returns None to fall back to Python, which handles or rejects the call.
"""

import cython
from cython.cimports.anydml.core.arguments import mark_axes, normalize_axis, read_ints
from cython.cimports.anydml.core.arrays import RANK
from cython.cimports.anydml.core.calls import Call, begin, finish_view
from cython.cimports.libc.stdint import int64_t


def copy(x, out):
    """``result[c] = x[c]``."""
    c: Call[1]
    if begin(c, x):
        return None
    return finish_view(c, out, c.x.rank, c.x.n, c.x.data, c.x.s)


def permute_dims(x, axes, out):
    """Axis d of the result is axis ``axes[d]`` of x."""
    c: Call[1]
    given: int64_t[64]
    seen: cython.ulonglong = 0
    if begin(c, x) or read_ints(axes, given, RANK) != c.x.rank:
        return None
    for d in range(c.x.rank):
        if normalize_axis(given + d, c.x.rank):
            return None
        seen |= cython.cast(cython.ulonglong, 1) << given[d]
        c.n[d] = c.x.n[given[d]]
        c.b[d] = c.x.s[given[d]]
    if c.x.rank and seen != ~cython.cast(cython.ulonglong, 0) >> (64 - c.x.rank):
        return None
    return finish_view(c, out, c.x.rank, c.n, c.x.data, c.b)


def flip(x, axis, out):
    """Reverse the elements along axes."""
    c: Call[1]
    along: cython.bint[64]
    at: int64_t[64]
    step: int64_t[64]
    if begin(c, x) or mark_axes(axis, c.x.rank, along):
        return None
    for d in range(c.x.rank):
        c.n[d] = c.x.n[d]
        at[d] = c.n[d] - 1 if along[d] and c.n[d] else 0
        step[d] = -1 if along[d] else 1
    return finish_steps(c, at, step, out)


def broadcast_to(x, shape, out):
    """Repeat x to a larger shape."""
    c: Call[1]
    if begin(c, x):
        return None
    rank: cython.int = read_ints(shape, c.n, RANK)
    more: cython.int = rank - c.x.rank
    if more < 0:
        return None
    for d in range(rank):
        c.b[d] = 0
        if c.n[d] < 0:
            return None
        if d >= more:
            if c.x.n[d - more] == c.n[d]:
                c.b[d] = c.x.s[d - more]
            elif c.x.n[d - more] != 1:
                return None
    return finish_view(c, out, rank, c.n, c.x.data, c.b)


def slice(x, offsets, sizes, strides, out):
    """``result[c] = x[offsets + strides · c]``."""
    c: Call[1]
    at: int64_t[64]
    step: int64_t[64]
    if begin(c, x) or read_ints(offsets, at, RANK) != c.x.rank or read_ints(sizes, c.n, RANK) != c.x.rank:
        return None
    if strides is not None and read_ints(strides, step, RANK) != c.x.rank:
        return None
    for d in range(c.x.rank):
        if strides is None:
            step[d] = 1
        if at[d] < 0 or c.n[d] < 0 or step[d] < 1 or at[d] > c.x.n[d]:
            return None
        # Divide, as a product might overflow.
        if c.n[d] and (at[d] >= c.x.n[d] or (c.x.n[d] - 1 - at[d]) // step[d] < c.n[d] - 1):
            return None
    return finish_steps(c, at, step, out)


def finish_steps(c, first, step, out):
    """Copy the elements of x from `first` on, by `step` on each axis; c.n holds the result's sizes."""
    source: cython.p_char = c.x.data
    for d in range(c.x.rank):
        source += first[d] * c.x.s[d]
        c.b[d] = step[d] * c.x.s[d] if c.n[d] > 1 else 0
    return finish_view(c, out, c.x.rank, c.n, source, c.b)


def read_windows(rank, sizes, offsets, lengths, strides, first, step, count):
    """Compute the first element, step and count of a strided window on each axis; returns 1 to fall back to Python."""
    length: int64_t[64]
    if read_ints(offsets, first, RANK) != rank or read_ints(lengths, length, RANK) != rank:
        return 1
    if read_ints(strides, step, RANK) != rank:
        return 1
    for d in range(rank):
        if first[d] < 0 or length[d] < 0 or first[d] > sizes[d] or length[d] > sizes[d] - first[d]:
            return 1
        # The lowest int64 has no positive counterpart.
        if step[d] == 0 or step[d] < -(cython.cast(int64_t, 1) << 62):
            return 1
        count[d] = 0
        if length[d]:
            count[d] = 1 + (length[d] - 1) // (step[d] if step[d] > 0 else -step[d])
            first[d] += 0 if step[d] > 0 else length[d] - 1
    return 0


def slice1(x, window_offsets, window_sizes, window_strides, output_sizes, out):
    """Copy a strided window, forwards or backwards."""
    c: Call[1]
    at: int64_t[64]
    step: int64_t[64]
    most: int64_t[64]
    if begin(c, x):
        return None
    if read_windows(c.x.rank, c.x.n, window_offsets, window_sizes, window_strides, at, step, most):
        return None
    if output_sizes is not None and read_ints(output_sizes, c.n, RANK) != c.x.rank:
        return None
    for d in range(c.x.rank):
        if output_sizes is None:
            c.n[d] = most[d]
        if c.n[d] < 0 or c.n[d] > most[d]:
            return None
    return finish_steps(c, at, step, out)
