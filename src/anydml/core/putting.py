"""Functions that scatter elements by indices, or select them by a mask."""

import cython
from cython.cimports.anydml.core.arguments import read_axis, read_count
from cython.cimports.anydml.core.arrays import RANK, View, read_mask, read_same_kind
from cython.cimports.anydml.core.calls import add_lookup, add_move, begin, finish, finish_lookups, make_result
from cython.cimports.anydml.core.moving import ANYDML_CLAMP, ANYDML_SKIP
from cython.cimports.anydml.core.picking import (
    add_tuple_lookups,
    begin_lookup,
    read_lookup_axis,
    read_tuples,
    resolve_index,
)
from cython.cimports.anydml.core.views import broadcast_strides
from cython.cimports.libc.stdint import int64_t


def begin_update(c, x, out):
    """Return the array for updates of x: x itself if `out` is x, else a result to which x is copied first."""
    c.is_in_place = out is x
    found = make_result(c, out, c.x.rank, c.x.n)
    if not c.is_in_place:
        add_move(c, c.to.data, c.x.data, c.x.rank, c.x.n, c.to.s, c.x.s)
    return found


def scatter(x, indices, updates, axis, out_of_range, out):
    """``result = x; result[c with c[axis] := indices[c]] = updates[c]``; the last update of an element wins."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    u: cython.pointer(View) = c.updates
    indices = begin_lookup(c, x, indices, out_of_range, ANYDML_SKIP)
    if indices is None or (along := read_lookup_axis(c, axis)) < 0:
        return None
    if read_same_kind(updates, u, c.kind) or u.rank != v.rank:
        return None
    for d in range(v.rank):
        if u.n[d] != w.n[d]:
            return None
    found = begin_update(c, x, out)
    for d in range(v.rank):
        c.a[d] = 0 if d == along else c.to.s[d]
    add_lookup(c, w.data, v.n[along], c.to.s[along], -2)
    return finish_lookups(c, found, u.data, w.rank, w.n, c.a, u.s, w.s)


def scatter_nd(x, indices, updates, out_of_range, out):
    """``result = x; result[*indices[c]] = updates[c]``; the last update of an element wins."""
    c: Call[1]
    u: cython.pointer(View) = c.updates
    indices = begin_lookup(c, x, indices, out_of_range, ANYDML_SKIP)
    if indices is None or (rank := read_tuples(c, 0)) < 0:
        return None
    if read_same_kind(updates, u, c.kind) or u.rank != rank:
        return None
    for d in range(rank):
        if u.n[d] != c.n[d]:
            return None
    found = begin_update(c, x, out)
    add_tuple_lookups(c, 0, c.to.s, c.a, -2)
    return finish_lookups(c, found, u.data, rank, u.n, c.a, u.s, c.s)


def one_hot(indices, values, depth, axis, out_of_range, out):
    """Return values[1] at each index, values[0] elsewhere."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    indices = begin_lookup(c, values, indices, out_of_range, ANYDML_SKIP)
    if indices is None or v.rank != 1 or v.n[0] != 2 or w.rank >= RANK:
        return None
    if (size := read_count(depth)) < 0 or (along := read_axis(axis, w.rank + 1)) < 0:
        return None
    for d in range(w.rank + 1):
        c.n[d] = size if d == along else w.n[d - (d > along)]
        c.b[d] = 0
    found = make_result(c, out, w.rank + 1, c.n)
    add_move(c, c.to.data, v.data, w.rank + 1, c.n, c.to.s, c.b)
    for d in range(w.rank):
        c.a[d] = c.to.s[d + (d >= along)]
    add_lookup(c, w.data, size, c.to.s[along], -2)
    return finish_lookups(c, found, v.data + v.s[0], w.rank, w.n, c.a, c.b, w.s)


def where(condition, x, y, out):
    """Select elements of x where a condition holds, of y elsewhere."""
    c: Call[1]
    each: cython.pointer(View)[3]
    each[0], each[1], each[2] = c.x, c.updates, c.indices
    if begin(c, x) or read_same_kind(y, each[1], c.kind) or read_mask(condition, c.kind, each[2]):
        return None
    c.type = 1
    rank = max(each[0].rank, each[1].rank, each[2].rank)
    for d in range(rank):
        c.n[d] = 1
        for k in range(3):
            if c.n[d] == 1 and d >= rank - each[k].rank:
                c.n[d] = each[k].n[d - rank + each[k].rank]
    if broadcast_strides(each[0], rank, c.n, c.a) or broadcast_strides(each[1], rank, c.n, c.b):
        return None
    if broadcast_strides(each[2], rank, c.n, c.s):
        return None
    found = make_result(c, out, rank, c.n)
    add_move(c, c.to.data, each[0].data, rank, c.n, c.to.s, c.a)
    # Only a byte of 0 is a valid index on an axis of one element.
    c.outside = ANYDML_SKIP
    add_lookup(c, each[2].data, 1, 0, -1)
    return finish_lookups(c, found, each[1].data, rank, c.n, c.to.s, c.b, c.s)


def reverse_subsequences(x, lengths, axis, out):
    """Reverse the first `lengths` elements of each row; the others are copied."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    offset: int64_t
    lengths = begin_lookup(c, x, lengths, "clamp", ANYDML_CLAMP)
    if lengths is None or (along := read_axis(axis, v.rank)) < 0 or w.rank != v.rank:
        return None
    rows: int64_t = 1
    for d in range(v.rank):
        if w.n[d] != (1 if d == along else v.n[d]):
            return None
        rows *= w.n[d]
    found = make_result(c, out, v.rank, v.n)
    size = v.n[along]
    step = v.s[along]
    for row in range(rows if size else 0):
        at: cython.p_char = c.to.data
        source: cython.p_char = v.data
        length: cython.p_char = w.data
        rest: int64_t = row
        for d in range(v.rank - 1, -1, -1):
            place = rest % w.n[d]
            rest //= w.n[d]
            at += place * c.to.s[d]
            source += place * v.s[d]
            length += place * w.s[d]
        # A length is an index on an axis of size + 1.
        resolve_index(length, c.type, size + 1, cython.address(offset))
        c.n[0] = offset
        c.b[0] = -step
        add_move(c, at, source + (offset - 1) * step, 1, c.n, c.to.s + along, c.b)
        c.n[0] = size - offset
        add_move(c, at + offset * c.to.s[along], source + offset * step, 1, c.n, c.to.s + along, v.s + along)
    return finish(c, found)
