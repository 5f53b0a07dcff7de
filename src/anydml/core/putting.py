"""Functions that scatter elements by indices, or select them by a mask.

Each returns None to fall back to Python, which handles or rejects the call.
"""

import cython
from cython.cimports.anydml.core.arguments import read_axis, read_int
from cython.cimports.anydml.core.arrays import RANK, View, is_disjoint, read_mask, read_output, read_same_kind
from cython.cimports.anydml.core.calls import (
    Call,
    add_lookup,
    add_move,
    begin,
    finish,
    finish_lookups,
    read_outside,
)
from cython.cimports.anydml.core.indices import resolve_index
from cython.cimports.anydml.core.moving import ANYDML_LOOKUPS, ANYDML_SKIP
from cython.cimports.anydml.core.picking import begin_lookup, lookup_axis, make_lookup_result
from cython.cimports.libc.stdint import int64_t


def begin_update(c, x, out):
    """Return the array for updates of x: x itself if `out` is x, else a result to which x is copied first."""
    element: int64_t = c.kind.element
    if out is x:
        c.has_out = True
        if read_output(out, c.kind, c.x.rank, c.x.n, c.to) or not is_disjoint(c.to, element, c.indices, abs(c.type)):
            return None
    else:
        found = make_lookup_result(c, out, c.x.rank, c.x.n)
        if found is None:
            return None
        add_move(c, c.to.data, c.x.data, c.x.rank, c.x.n, c.to.s, c.x.s)
        if out is None:
            return found
    return out if is_disjoint(c.to, element, c.updates, element) else None


def scatter(x, indices, updates, axis, out_of_range, out):
    """``result = x; result[c with c[axis] := indices[c]] = updates[c]``; the last update of an element wins."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    u: cython.pointer(View) = c.updates
    along: int64_t
    indices = begin_lookup(c, x, indices)
    if indices is None or read_outside(c, out_of_range, ANYDML_SKIP) or lookup_axis(c, axis, cython.address(along)):
        return None
    if read_same_kind(updates, u, c.kind) or u.rank != v.rank:
        return None
    for d in range(v.rank):
        if u.n[d] != w.n[d]:
            return None
    found = begin_update(c, x, out)
    if found is None:
        return None
    for d in range(v.rank):
        c.a[d] = 0 if d == along else c.to.s[d]
    add_lookup(c, w.data, v.n[along], c.to.s[along], -2)
    return finish_lookups(c, found, u.data, w.rank, w.n, c.a, u.s, w.s)


def scatter_nd(x, indices, updates, out_of_range, out):
    """``result = x; result[*indices[c]] = updates[c]``; the last update of an element wins."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    u: cython.pointer(View) = c.updates
    s: int64_t[64]
    indices = begin_lookup(c, x, indices)
    if indices is None or read_outside(c, out_of_range, ANYDML_SKIP):
        return None
    if not w.rank or w.n[w.rank - 1] > min(v.rank, ANYDML_LOOKUPS):
        return None
    length: cython.int = w.n[w.rank - 1]
    last: cython.int = w.rank - 1
    rank: cython.int = last + v.rank - length
    if rank > RANK:
        return None
    if read_same_kind(updates, u, c.kind) or u.rank != rank:
        return None
    for d in range(rank):
        if u.n[d] != (w.n[d] if d < last else v.n[d - last + length]):
            return None
    found = begin_update(c, x, out)
    if found is None:
        return None
    for d in range(rank):
        c.a[d] = 0 if d < last else c.to.s[d - last + length]
        s[d] = w.s[d] if d < last else 0
    for d in range(length):
        add_lookup(c, w.data + d * w.s[last], v.n[d], c.to.s[d], -2)
    return finish_lookups(c, found, u.data, rank, u.n, c.a, u.s, s)


def one_hot(indices, values, depth, axis, out_of_range, out):
    """Return values[1] at each index, values[0] elsewhere."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    size: int64_t
    along: int64_t
    indices = begin_lookup(c, values, indices)
    if indices is None or read_outside(c, out_of_range, ANYDML_SKIP) or v.rank != 1 or v.n[0] != 2 or w.rank >= RANK:
        return None
    if read_int(depth, cython.address(size)) or size < 0 or read_axis(axis, w.rank + 1, cython.address(along)):
        return None
    for d in range(w.rank + 1):
        c.n[d] = size if d == along else w.n[d - (d > along)]
        c.b[d] = 0
    found = make_lookup_result(c, out, w.rank + 1, c.n)
    if found is None:
        return None
    add_move(c, c.to.data, v.data, w.rank + 1, c.n, c.to.s, c.b)
    for d in range(w.rank):
        c.a[d] = c.to.s[d + (d >= along)]
    add_lookup(c, w.data, size, c.to.s[along], -2)
    return finish_lookups(c, found, v.data + v.s[0], w.rank, w.n, c.a, c.b, w.s)


def spread_strides(v, rank, n, s):
    """Compute the strides of an array that is broadcast to a shape; returns 1 if it does not fit."""
    more: cython.int = rank - v.rank
    for d in range(rank):
        s[d] = 0
        if d >= more and v.n[d - more] != 1:
            if n[d] != v.n[d - more]:
                return 1
            s[d] = v.s[d - more]
    return 0


def where(condition, x, y, out):
    """Select elements of x where a condition holds, of y elsewhere."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.updates
    m: cython.pointer(View) = c.indices
    mask: int64_t[64]
    if begin(c, x) or read_same_kind(y, w, c.kind) or read_mask(condition, c.kind, m):
        return None
    rank: cython.int = max(v.rank, w.rank, m.rank)
    for d in range(rank):
        c.n[d] = 1
        if d >= rank - v.rank:
            c.n[d] = v.n[d - rank + v.rank]
        if d >= rank - w.rank and c.n[d] == 1:
            c.n[d] = w.n[d - rank + w.rank]
        if d >= rank - m.rank and c.n[d] == 1:
            c.n[d] = m.n[d - rank + m.rank]
    if spread_strides(v, rank, c.n, c.a) or spread_strides(w, rank, c.n, c.b) or spread_strides(m, rank, c.n, mask):
        return None
    c.type = 1
    found = make_lookup_result(c, out, rank, c.n)
    if found is None or (out is not None and not is_disjoint(c.to, c.kind.element, w, c.kind.element)):
        return None
    add_move(c, c.to.data, v.data, rank, c.n, c.to.s, c.a)
    # Only a byte of 0 is a valid index on an axis of one element.
    c.outside = ANYDML_SKIP
    add_lookup(c, m.data, 1, 0, -1)
    return finish_lookups(c, found, w.data, rank, c.n, c.to.s, c.b, mask)


def reverse_subsequences(x, lengths, axis, out):
    """Reverse the first `lengths` elements of each row; the others are copied."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    along: int64_t
    offset: int64_t
    place_of: int64_t[64]
    lengths = begin_lookup(c, x, lengths)
    if lengths is None or read_axis(axis, v.rank, cython.address(along)) or w.rank != v.rank:
        return None
    rows: int64_t = 1
    for d in range(v.rank):
        place_of[d] = 0
        if w.n[d] != (1 if d == along else v.n[d]):
            return None
        rows *= w.n[d]
    found = make_lookup_result(c, out, v.rank, v.n)
    if found is None:
        return None
    size: int64_t = v.n[along]
    step: int64_t = v.s[along]
    at: cython.p_char = c.to.data
    source: cython.p_char = v.data
    length: cython.p_char = w.data
    while size and rows > 0:
        # A length is an index on an axis of size + 1.
        resolve_index(length, c.type, size + 1, cython.address(offset))
        c.n[0] = offset
        c.b[0] = -step
        add_move(c, at, source + (offset - 1) * step, 1, c.n, c.to.s + along, c.b)
        c.n[0] = size - offset
        add_move(c, at + offset * c.to.s[along], source + offset * step, 1, c.n, c.to.s + along, v.s + along)
        rows -= 1
        for d in range(v.rank - 1, -1, -1):
            if d == along:
                continue
            at += c.to.s[d]
            source += v.s[d]
            length += w.s[d]
            place_of[d] += 1
            if place_of[d] < v.n[d]:
                break
            at -= c.to.s[d] * v.n[d]
            source -= v.s[d] * v.n[d]
            length -= w.s[d] * v.n[d]
            place_of[d] = 0
    return finish(c, found)
