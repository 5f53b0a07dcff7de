# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The functions that move one array as a view of it lies: in another order, direction, place or number.

Each gives None for what Python has to do, or refuse.
"""

import cython
from cython.cimports.anydml.core.arrays import RANK, Kind, View, apart, make, number, numbers, one, read, target, tell
from cython.cimports.anydml.core.batch import Batch, add, begin, run_all
from cython.cimports.libc.stdint import int64_t


def axis_of(given, rank, axis):
    """An axis from 0 to rank − 1; returns 1 where it is none."""
    if number(given, axis) or axis[0] < -rank or axis[0] >= rank:
        return 1
    if axis[0] < 0:
        axis[0] += rank
    return 0


def marked(axes, rank, along):
    """Which axes are among some, or all for None; returns 1 where one is none, or there twice."""
    d: cython.int
    k: cython.int
    given: int64_t[64]
    for d in range(rank):
        along[d] = axes is None
    if axes is None:
        return 0
    count: cython.int = 1
    if one(axes, given):
        count = numbers(axes, given, RANK)
    for k in range(count):
        if given[k] < -rank or given[k] >= rank:
            return 1
        d = given[k] + rank if given[k] < 0 else given[k]
        if along[d]:
            return 1
        along[d] = True
    return count < 0


def is_product(n, times):
    """Whether a product is a size that an array may have."""
    return not n or times <= (cython.cast(int64_t, 1) << 48) // n


def result(k, x, out, rank, n, v):
    """Where a result of x's kind goes: a new array, or the caller's, if that lies apart from x; else None."""
    if out is None:
        return make(k, rank, n, v)
    if target(out, k, rank, n, v) or not apart(v, k.element, x, k.element):
        return None
    tell(out, k)
    return out


def moved(k, x, out, rank, n, source, b):
    """``result[c] = *(source + Σ c·b)`` for every coordinate of the result's shape n."""
    v: View
    batch: Batch
    found = result(k, x, out, rank, n, cython.address(v))
    if found is None:
        return None
    begin(cython.address(batch))
    if add(cython.address(batch), v.data, source, k.element, rank, n, v.s, b):
        return None
    run_all(cython.address(batch))
    return found


def copy(x, out):
    """``result[c] = x[c]``."""
    v: View
    k: Kind
    if read(x, cython.address(v), cython.address(k)):
        return None
    return moved(cython.address(k), cython.address(v), out, v.rank, v.n, v.data, v.s)


def permute_dims(x, axes, out):
    """Axis d of the result is axis ``axes[d]`` of x."""
    v: View
    k: Kind
    given: int64_t[64]
    n: int64_t[64]
    b: int64_t[64]
    seen: cython.ulonglong = 0
    d: cython.int
    if read(x, cython.address(v), cython.address(k)) or numbers(axes, given, RANK) != v.rank:
        return None
    for d in range(v.rank):
        if given[d] < 0:
            given[d] += v.rank
        if given[d] < 0 or given[d] >= v.rank:
            return None
        seen |= cython.cast(cython.ulonglong, 1) << given[d]
        n[d] = v.n[given[d]]
        b[d] = v.s[given[d]]
    if v.rank and seen != ~cython.cast(cython.ulonglong, 0) >> (64 - v.rank):
        return None
    return moved(cython.address(k), cython.address(v), out, v.rank, n, v.data, b)


def flip(x, axis, out):
    """The elements in reverse order along axes."""
    v: View
    k: Kind
    b: int64_t[64]
    along: cython.bint[64]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)) or marked(axis, v.rank, along):
        return None
    source: cython.p_char = v.data
    for d in range(v.rank):
        b[d] = v.s[d]
        if along[d] and v.n[d]:
            source += (v.n[d] - 1) * v.s[d]
            b[d] = -b[d]
    return moved(cython.address(k), cython.address(v), out, v.rank, v.n, source, b)


def broadcast_to(x, shape, out):
    """x, repeated to a larger shape."""
    v: View
    k: Kind
    n: int64_t[64]
    b: int64_t[64]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)):
        return None
    rank: cython.int = numbers(shape, n, RANK)
    more: cython.int = rank - v.rank
    if more < 0:
        return None
    for d in range(rank):
        b[d] = 0
        if n[d] < 0:
            return None
        if d >= more:
            if v.n[d - more] == n[d]:
                b[d] = v.s[d - more]
            elif v.n[d - more] != 1:
                return None
    return moved(cython.address(k), cython.address(v), out, rank, n, v.data, b)


def slice(x, offsets, sizes, strides, out):
    """``result[c] = x[offsets + strides · c]``."""
    v: View
    k: Kind
    at: int64_t[64]
    n: int64_t[64]
    step: int64_t[64]
    b: int64_t[64]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)):
        return None
    if numbers(offsets, at, RANK) != v.rank or numbers(sizes, n, RANK) != v.rank:
        return None
    if strides is not None and numbers(strides, step, RANK) != v.rank:
        return None
    source: cython.p_char = v.data
    for d in range(v.rank):
        if strides is None:
            step[d] = 1
        if at[d] < 0 or n[d] < 0 or step[d] < 1 or at[d] > v.n[d]:
            return None
        # Sizes without a product, which may be too large.
        if n[d] and (at[d] >= v.n[d] or (v.n[d] - 1 - at[d]) // step[d] < n[d] - 1):
            return None
        source += at[d] * v.s[d]
        b[d] = step[d] * v.s[d] if n[d] > 1 else 0
    return moved(cython.address(k), cython.address(v), out, v.rank, n, source, b)


def slice1(x, window_offsets, window_sizes, window_strides, output_sizes, out):
    """A strided window, forwards or backwards."""
    v: View
    k: Kind
    at: int64_t[64]
    window: int64_t[64]
    step: int64_t[64]
    n: int64_t[64]
    b: int64_t[64]
    d: cython.int
    most: int64_t
    if read(x, cython.address(v), cython.address(k)):
        return None
    if numbers(window_offsets, at, RANK) != v.rank or numbers(window_sizes, window, RANK) != v.rank:
        return None
    if numbers(window_strides, step, RANK) != v.rank:
        return None
    if output_sizes is not None and numbers(output_sizes, n, RANK) != v.rank:
        return None
    source: cython.p_char = v.data
    for d in range(v.rank):
        if at[d] < 0 or window[d] < 0 or at[d] > v.n[d] or window[d] > v.n[d] - at[d]:
            return None
        # The least step has no positive counterpart.
        if step[d] == 0 or step[d] < -(cython.cast(int64_t, 1) << 62):
            return None
        most = 0
        if window[d]:
            most = 1 + (window[d] - 1) // (step[d] if step[d] > 0 else -step[d])
        if output_sizes is None:
            n[d] = most
        elif n[d] < 0 or n[d] > most:
            return None
        if n[d]:
            source += (at[d] if step[d] > 0 else at[d] + window[d] - 1) * v.s[d]
        b[d] = step[d] * v.s[d] if n[d] > 1 else 0
    return moved(cython.address(k), cython.address(v), out, v.rank, n, source, b)
