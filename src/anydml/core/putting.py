# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The functions that put elements where indices point, or choose them by a mask.

Each gives None for what Python has to do, or refuse.
"""

import cython
from cython.cimports.anydml.core.arrays import (
    RANK,
    Kind,
    View,
    apart,
    number,
    read,
    read_alike,
    read_mask,
    target,
    tell,
)
from cython.cimports.anydml.core.batch import Batch, add, begin, look_up, run_all
from cython.cimports.anydml.core.indices import are_accepted, place
from cython.cimports.anydml.core.moving import ANYDML_SKIP
from cython.cimports.anydml.core.picking import Call, begun, looked_up, opened
from cython.cimports.anydml.core.views import axis_of
from cython.cimports.libc.stdint import int64_t


def put_into(c, x, out):
    """Where updates of x go, with x in it: a result, or x itself where that is what the caller gives as `out`."""
    to: cython.pointer(View) = cython.address(c.to)
    k: cython.pointer(Kind) = cython.address(c.kind)
    batch: cython.pointer(Batch) = cython.address(c.batch)
    if out is x:
        if target(out, k, c.x.rank, c.x.n, to) or not apart(to, k.element, cython.address(c.indices), abs(c.type)):
            return None
        begin(batch)
    else:
        found = begun(c, out, c.x.rank, c.x.n)
        if found is None or add(batch, to.data, c.x.data, k.element, c.x.rank, c.x.n, to.s, c.x.s):
            return None
        if out is None:
            return found
    if not apart(to, k.element, cython.address(c.updates), k.element):
        return None
    tell(out, k)
    return out


def scatter(x, indices, updates, axis, out_of_range, out):
    """``result = x; result[c with c[axis] := indices[c]] = updates[c]``; the last update of an element stays."""
    c: Call
    v: cython.pointer(View) = cython.address(c.x)
    w: cython.pointer(View) = cython.address(c.indices)
    u: cython.pointer(View) = cython.address(c.updates)
    along: int64_t
    a: int64_t[64]
    d: cython.int
    strides: cython.pointer(cython.const[int64_t])[1]
    indices = opened(cython.address(c), x, indices)
    if indices is None or axis_of(axis, v.rank, cython.address(along)) or w.rank != v.rank:
        return None
    if read_alike(updates, u, cython.address(c.kind)) or u.rank != v.rank:
        return None
    for d in range(v.rank):
        if (d != along and w.n[d] > v.n[d]) or u.n[d] != w.n[d]:
            return None
    if not are_accepted(out_of_range, "skip", w, c.type, cython.address(v.n[along]), False):
        return None
    found = put_into(cython.address(c), x, out)
    if found is None:
        return None
    for d in range(v.rank):
        a[d] = 0 if d == along else c.to.s[d]
    look_up(cython.address(c.batch), w.data, c.type, v.n[along], c.to.s[along], ANYDML_SKIP, -2)
    strides[0] = w.s
    return looked_up(cython.address(c), found, u.data, w.rank, w.n, a, u.s, 1, strides)


def scatter_nd(x, indices, updates, out_of_range, out):
    """``result = x; result[*indices[c]] = updates[c]``; the last update of an element stays."""
    c: Call
    v: cython.pointer(View) = cython.address(c.x)
    w: cython.pointer(View) = cython.address(c.indices)
    u: cython.pointer(View) = cython.address(c.updates)
    n: int64_t[64]
    a: int64_t[64]
    s: int64_t[64]
    d: cython.int
    strides: cython.pointer(cython.const[int64_t])[16]
    indices = opened(cython.address(c), x, indices)
    if indices is None or not w.rank or w.n[w.rank - 1] > 16:
        return None
    length: cython.int = w.n[w.rank - 1]
    last: cython.int = w.rank - 1
    rank: cython.int = last + v.rank - length
    if length > v.rank or rank > RANK:
        return None
    if read_alike(updates, u, cython.address(c.kind)) or u.rank != rank:
        return None
    for d in range(rank):
        if u.n[d] != (w.n[d] if d < last else v.n[d - last + length]):
            return None
    if not are_accepted(out_of_range, "skip", w, c.type, v.n, True):
        return None
    found = put_into(cython.address(c), x, out)
    if found is None:
        return None
    for d in range(rank):
        n[d] = u.n[d]
        a[d] = 0 if d < last else c.to.s[d - last + length]
        s[d] = w.s[d] if d < last else 0
    for d in range(length):
        at: cython.p_char = w.data + d * w.s[last]
        look_up(cython.address(c.batch), at, c.type, v.n[d], c.to.s[d], ANYDML_SKIP, -2)
        strides[d] = s
    return looked_up(cython.address(c), found, u.data, rank, n, a, u.s, length, strides)


def one_hot(indices, values, depth, axis, out_of_range, out):
    """One value where an index points, another elsewhere."""
    c: Call
    v: cython.pointer(View) = cython.address(c.x)
    w: cython.pointer(View) = cython.address(c.indices)
    to: cython.pointer(View) = cython.address(c.to)
    batch: cython.pointer(Batch) = cython.address(c.batch)
    size: int64_t
    along: int64_t
    n: int64_t[64]
    a: int64_t[64]
    still: int64_t[64]
    d: cython.int
    strides: cython.pointer(cython.const[int64_t])[1]
    indices = opened(cython.address(c), values, indices)
    if indices is None or v.rank != 1 or v.n[0] != 2 or w.rank >= RANK:
        return None
    if number(depth, cython.address(size)) or size < 0 or axis_of(axis, w.rank + 1, cython.address(along)):
        return None
    if not are_accepted(out_of_range, "skip", w, c.type, cython.address(size), False):
        return None
    for d in range(w.rank + 1):
        n[d] = size if d == along else w.n[d - (d > along)]
        still[d] = 0
    found = begun(cython.address(c), out, w.rank + 1, n)
    if found is None or add(batch, to.data, v.data, c.kind.element, w.rank + 1, n, to.s, still):
        return None
    for d in range(w.rank):
        a[d] = to.s[d + (d >= along)]
    look_up(batch, w.data, c.type, size, to.s[along], ANYDML_SKIP, -2)
    strides[0] = w.s
    return looked_up(cython.address(c), found, v.data + v.s[0], w.rank, w.n, a, still, 1, strides)


def spread(v, rank, n, s):
    """The strides of an array that is broadcast to a shape; returns 1 where it does not fit."""
    d: cython.int
    more: cython.int = rank - v.rank
    for d in range(rank):
        s[d] = 0
        if d >= more and v.n[d - more] != 1:
            if n[d] != v.n[d - more]:
                return 1
            s[d] = v.s[d - more]
    return 0


def where(condition, x, y, out):
    """Elements of x where a condition holds, of y elsewhere."""
    c: Call
    v: cython.pointer(View) = cython.address(c.x)
    w: cython.pointer(View) = cython.address(c.updates)
    m: cython.pointer(View) = cython.address(c.indices)
    batch: cython.pointer(Batch) = cython.address(c.batch)
    k: cython.pointer(Kind) = cython.address(c.kind)
    n: int64_t[64]
    first: int64_t[64]
    second: int64_t[64]
    mask: int64_t[64]
    d: cython.int
    strides: cython.pointer(cython.const[int64_t])[1]
    if read(x, v, k) or read_alike(y, w, k) or read_mask(condition, k, m):
        return None
    rank: cython.int = max(v.rank, w.rank, m.rank)
    for d in range(rank):
        n[d] = 1
        if d >= rank - v.rank:
            n[d] = v.n[d - rank + v.rank]
        if d >= rank - w.rank and n[d] == 1:
            n[d] = w.n[d - rank + w.rank]
        if d >= rank - m.rank and n[d] == 1:
            n[d] = m.n[d - rank + m.rank]
    if spread(v, rank, n, first) or spread(w, rank, n, second) or spread(m, rank, n, mask):
        return None
    c.type = 1
    found = begun(cython.address(c), out, rank, n)
    if found is None or (out is not None and not apart(cython.address(c.to), k.element, w, k.element)):
        return None
    if add(batch, c.to.data, v.data, k.element, rank, n, c.to.s, first):
        return None
    # A byte of 0 is the one index inside an axis of one element.
    look_up(batch, m.data, c.type, 1, 0, ANYDML_SKIP, -1)
    strides[0] = mask
    return looked_up(cython.address(c), found, w.data, rank, n, c.to.s, second, 1, strides)


def reverse_subsequences(x, lengths, axis, out):
    """The first elements of each row backwards, the others as they are."""
    c: Call
    v: cython.pointer(View) = cython.address(c.x)
    w: cython.pointer(View) = cython.address(c.indices)
    to: cython.pointer(View) = cython.address(c.to)
    batch: cython.pointer(Batch) = cython.address(c.batch)
    along: int64_t
    offset: int64_t
    place_of: int64_t[64]
    n: int64_t[1]
    a: int64_t[1]
    b: int64_t[1]
    d: cython.int
    lengths = opened(cython.address(c), x, lengths)
    if lengths is None or axis_of(axis, v.rank, cython.address(along)) or w.rank != v.rank:
        return None
    rows: int64_t = 1
    for d in range(v.rank):
        place_of[d] = 0
        if w.n[d] != (1 if d == along else v.n[d]):
            return None
        rows *= w.n[d]
    found = begun(cython.address(c), out, v.rank, v.n)
    if found is None:
        return None
    size: int64_t = v.n[along]
    at: cython.p_char = to.data
    source: cython.p_char = v.data
    length: cython.p_char = w.data
    element: int64_t = c.kind.element
    a[0] = to.s[along]
    while size and rows > 0:
        # A length is an index of size + 1 places, worth a byte each.
        place(length, c.type, size + 1, cython.address(offset))
        n[0] = offset
        b[0] = -v.s[along]
        if add(batch, at, source + (offset - 1) * v.s[along], element, 1, n, a, b):
            return None
        n[0] = size - offset
        b[0] = v.s[along]
        if add(batch, at + offset * a[0], source + offset * b[0], element, 1, n, a, b):
            return None
        rows -= 1
        for d in range(v.rank - 1, -1, -1):
            if d == along:
                continue
            at += to.s[d]
            source += v.s[d]
            length += w.s[d]
            place_of[d] += 1
            if place_of[d] < v.n[d]:
                break
            at -= to.s[d] * v.n[d]
            source -= v.s[d] * v.n[d]
            length -= w.s[d] * v.n[d]
            place_of[d] = 0
    run_all(batch)
    return found
