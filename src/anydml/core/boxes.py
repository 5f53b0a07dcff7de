# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""`diagonal_matrix` and `unfold`: many boxes of one result, each filled or moved.

Each gives None for what Python has to do, or refuse.
"""

import cython
from cython.cimports.anydml.core.arrays import RANK, Kind, View, number, numbers, read
from cython.cimports.anydml.core.batch import Batch, add, add_fill, begin, run_all
from cython.cimports.anydml.core.filling import pattern_of, surround
from cython.cimports.anydml.core.views import is_product, result
from cython.cimports.cpython.bytes import PyBytes_AS_STRING
from cython.cimports.libc.stdint import int64_t

from anydml.core.bands import band

EVERY = 1 << 62
"""More diagonals than there are."""


def diagonal_matrix(x, value, begin_at, end, out):
    """X with a value on some of its diagonals."""
    v: View
    to: View
    k: Kind
    batch: Batch
    first: int64_t
    last: int64_t
    n: int64_t[66]
    a: int64_t[66]
    steps: int64_t[2]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)) or not 2 <= v.rank < RANK:
        return None
    if number(begin_at, cython.address(first)) or number(end, cython.address(last)):
        return None
    if not (-EVERY < first < EVERY and -EVERY < last < EVERY):
        return None
    pattern = pattern_of(cython.address(k), value)
    # A value's own methods may have changed x.
    if pattern is None or read(x, cython.address(v), cython.address(k)) or not 2 <= v.rank < RANK:
        return None
    found = result(cython.address(k), cython.address(v), out, v.rank, v.n, cython.address(to))
    if found is None:
        return None
    begin(cython.address(batch))
    if add(cython.address(batch), to.data, v.data, k.element, v.rank, v.n, to.s, v.s):
        return None
    lead: cython.int = v.rank - 2
    for d in range(lead):
        n[d] = v.n[d]
        a[d] = to.s[d]
    height: int64_t = v.n[lead]
    width: int64_t = v.n[lead + 1]
    bands = [(first, last)] if first <= last else [(-EVERY, last), (first, EVERY)]
    for low, high in bands:
        for box in band(height, width, low, high):
            row: int64_t = box.row
            column: int64_t = box.column
            count: cython.int = numbers(box.sizes, n + lead, 3)
            d = lead
            for step in box.steps:
                numbers(step, steps, 2)
                a[d] = steps[0] * to.s[lead] + steps[1] * to.s[lead + 1]
                d += 1
            corner: cython.p_char = to.data + row * to.s[lead] + column * to.s[lead + 1]
            at: cython.p_char = PyBytes_AS_STRING(pattern)
            if add_fill(cython.address(batch), corner, at, k.element, k.element, lead + count, n, a):
                return None
    run_all(cython.address(batch))
    return found


def unfold(x, window_sizes, strides, dilations, pads, out):
    """Every position of a sliding window as a column; zeros outside x."""
    v: View
    to: View
    whole: View
    k: Kind
    batch: Batch
    window: int64_t[64]
    step: int64_t[64]
    apart: int64_t[64]
    around: int64_t[128]
    count: int64_t[64]
    n: int64_t[3]
    sizes: int64_t[64]
    at: int64_t[64]
    start: int64_t[64]
    box: int64_t[64]
    ones: int64_t[64]
    b: int64_t[64]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)) or v.rank < 3:
        return None
    rank: cython.int = v.rank - 2
    if numbers(window_sizes, window, RANK) != rank:
        return None
    if strides is not None and numbers(strides, step, RANK) != rank:
        return None
    if dilations is not None and numbers(dilations, apart, RANK) != rank:
        return None
    if pads is not None and numbers(pads, around, 2 * RANK) != 2 * rank:
        return None
    windows: int64_t = 1
    columns: int64_t = 1
    most: int64_t = cython.cast(int64_t, 1) << 31
    for d in range(rank):
        if strides is None:
            step[d] = 1
        if dilations is None:
            apart[d] = 1
        if pads is None:
            around[d] = around[rank + d] = 0
        if not (1 <= window[d] < most and 1 <= step[d] < most and 1 <= apart[d] < most):
            return None
        if not (0 <= around[d] < most and 0 <= around[rank + d] < most):
            return None
        reach: int64_t = v.n[2 + d] + around[d] + around[rank + d] - apart[d] * (window[d] - 1) - 1
        if reach < 0:
            return None
        count[d] = reach // step[d] + 1
        if not (is_product(windows, window[d]) and is_product(columns, count[d])):
            return None
        windows *= window[d]
        columns *= count[d]
    if not is_product(v.n[1], windows):
        return None
    n[0] = v.n[0]
    n[1] = v.n[1] * windows
    n[2] = columns
    pattern = bytes(k.element)
    found = result(cython.address(k), cython.address(v), out, 3, n, cython.address(to))
    if found is None:
        return None
    begin(cython.address(batch))
    # A window's element goes to N, C and the window's positions: one box for each.
    whole.rank = v.rank
    whole.n = sizes
    whole.s = whole.own
    sizes[0] = v.n[0]
    sizes[1] = v.n[1]
    whole.own[0] = to.s[0]
    whole.own[1] = to.s[1] * windows
    along: int64_t = to.s[2]
    for d in range(rank - 1, -1, -1):
        sizes[2 + d] = count[d]
        whole.own[2 + d] = along
        along *= count[d]
        at[d] = 0
    for d in range(v.rank):
        ones[d] = 1
    row: int64_t
    for row in range(windows):
        whole.data = to.data + row * to.s[1]
        source: cython.p_char = v.data
        inner: cython.p_char = whole.data
        nothing: cython.bint = False
        for d in range(2):
            start[d] = 0
            box[d] = v.n[d]
            b[d] = v.s[d]
        for d in range(rank):
            # Positions at which this element of the window lies inside x.
            first: int64_t = at[d] * apart[d] - around[d]
            low: int64_t = 0 if first >= 0 else (-first + step[d] - 1) // step[d]
            high: int64_t = 0 if first >= v.n[2 + d] else min(count[d], (v.n[2 + d] - 1 - first) // step[d] + 1)
            start[2 + d] = low
            box[2 + d] = high - low
            nothing = nothing or high <= low
            source += (first + low * step[d]) * v.s[2 + d]
            inner += low * whole.s[2 + d]
            b[2 + d] = step[d] * v.s[2 + d]
        zero: cython.p_char = PyBytes_AS_STRING(pattern)
        if nothing:
            if add_fill(cython.address(batch), whole.data, zero, k.element, k.element, v.rank, sizes, whole.s):
                return None
        else:
            if surround(cython.address(batch), cython.address(whole), k.element, start, box, ones, zero):
                return None
            if add(cython.address(batch), inner, source, k.element, v.rank, box, whole.s, b):
                return None
        for d in range(rank - 1, -1, -1):
            at[d] += 1
            if at[d] < window[d]:
                break
            at[d] = 0
    run_all(cython.address(batch))
    return found
