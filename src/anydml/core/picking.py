"""Functions that gather elements by indices, and common parts of all calls with lookups.

Each returns None to fall back to Python, which handles or rejects the call.
"""

import cython
from cython.cimports.anydml.core.arguments import read_axis, read_int
from cython.cimports.anydml.core.arrays import RANK, View, is_disjoint, read_indices
from cython.cimports.anydml.core.calls import (
    REFUSE,
    Call,
    add_lookup,
    add_move,
    begin,
    finish,
    finish_lookups,
    make_result,
    read_outside,
)
from cython.cimports.anydml.core.indices import as_indices, resolve_index
from cython.cimports.anydml.core.moving import ANYDML_CLAMP, ANYDML_LOOKUPS
from cython.cimports.libc.stdint import int64_t

FEW = cython.declare(cython.int, 8)
"""Maximum number of indices with one move each; also of columns that are woven at once."""


def begin_lookup(c, x, indices):
    """Begin a call on an array and indices; returns the converted indices, which must outlive the call."""
    if begin(c, x):
        return None
    indices = as_indices(indices)
    return None if read_indices(indices, c.kind, c.indices, cython.address(c.type)) else indices


def make_lookup_result(c, out, rank, n):
    """As `make_result`, which must not overlap the indices either."""
    found = make_result(c, out, rank, n)
    if found is not None and out is not None and not is_disjoint(c.to, c.kind.element, c.indices, abs(c.type)):
        return None
    return found


def add_plane(c, into, source, along):
    """Add a copy of the plane that one index selects."""
    rank: cython.int = 0
    for d in range(c.x.rank):
        if d != along:
            c.n[rank] = c.x.n[d]
            c.a[rank] = c.to.s[d if d < along else d - 1 + c.indices.rank]
            c.b[rank] = c.x.s[d]
            rank += 1
    return add_move(c, into, source, rank, c.n, c.a, c.b)


def lookup_axis(c, given, axis):
    """Read the axis of an elementwise lookup; returns 1 if the indices' rank or sizes do not fit the array."""
    if read_axis(given, c.x.rank, axis) or c.indices.rank != c.x.rank:
        return 1
    for d in range(c.x.rank):
        if d != axis[0] and c.indices.n[d] > c.x.n[d]:
            return 1
    return 0


def gather(x, indices, axis, out_of_range, out):
    """``result[lead, i, trail] = x[lead, indices[i], trail]``."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    along: int64_t
    s: int64_t[64]
    at: int64_t
    indices = begin_lookup(c, x, indices)
    if indices is None or read_outside(c, out_of_range, ANYDML_CLAMP):
        return None
    if read_axis(axis, v.rank, cython.address(along)) or v.rank - 1 + w.rank > RANK:
        return None
    rank: cython.int = v.rank - 1 + w.rank
    total: int64_t = 1
    for d in range(rank):
        if along <= d < along + w.rank:
            c.n[d] = w.n[d - along]
            s[d] = w.s[d - along]
            c.b[d] = 0
            total *= c.n[d]
        else:
            c.n[d] = v.n[d if d < along else d - w.rank + 1]
            c.b[d] = v.s[d if d < along else d - w.rank + 1]
            s[d] = 0
    size: int64_t = v.n[along]
    is_few: cython.bint = w.rank <= 1 and total and (not w.rank or w.n[0] <= FEW)
    if total and not size:
        return None
    found = make_lookup_result(c, out, rank, c.n)
    if found is None:
        return None
    if is_few:
        # Copies of planes; those of short columns are woven together.
        for d in range(w.n[0] if w.rank else 1):
            if (
                resolve_index(w.data + d * (w.s[0] if w.rank else 0), c.type, size, cython.address(at))
                and c.outside == REFUSE
            ):
                return None
            add_plane(c, c.to.data + d * (c.to.s[along] if w.rank else 0), v.data + at * v.s[along], along)
        return finish(c, found)
    add_lookup(c, w.data, size, v.s[along], -1)
    return finish_lookups(c, found, v.data, rank, c.n, c.to.s, c.b, s)


def slices_at(x, places, axis):
    """Return the slices of x along an axis at places in range."""
    return gather(x, places, axis, "clamp", None)


def gather_elements(x, indices, axis, out_of_range, out):
    """``result[c] = x[c with c[axis] := indices[c]]``."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    along: int64_t
    indices = begin_lookup(c, x, indices)
    if indices is None or read_outside(c, out_of_range, ANYDML_CLAMP) or lookup_axis(c, axis, cython.address(along)):
        return None
    for d in range(v.rank):
        c.b[d] = 0 if d == along else v.s[d]
    found = make_lookup_result(c, out, w.rank, w.n)
    if found is None:
        return None
    add_lookup(c, w.data, v.n[along], v.s[along], -1)
    return finish_lookups(c, found, v.data, w.rank, w.n, c.to.s, c.b, w.s)


def gather_nd(x, indices, batch_dims, out_of_range, out):
    """``result[b, c] = x[b, *indices[b, c]]``."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    first: int64_t
    s: int64_t[64]
    indices = begin_lookup(c, x, indices)
    if indices is None or read_outside(c, out_of_range, ANYDML_CLAMP) or read_int(batch_dims, cython.address(first)):
        return None
    if not 0 <= first < w.rank or first > v.rank or w.n[w.rank - 1] > min(v.rank - first, ANYDML_LOOKUPS):
        return None
    length: cython.int = w.n[w.rank - 1]
    last: cython.int = w.rank - 1
    rank: cython.int = last + v.rank - first - length
    if rank > RANK:
        return None
    for d in range(first):
        if v.n[d] != w.n[d]:
            return None
    for d in range(rank):
        own = d - last + first + length
        c.n[d] = w.n[d] if d < last else v.n[own]
        s[d] = w.s[d] if d < last else 0
        c.b[d] = v.s[d] if d < first else 0 if d < last else v.s[own]
    found = make_lookup_result(c, out, rank, c.n)
    if found is None:
        return None
    for d in range(length):
        add_lookup(c, w.data + d * w.s[last], v.n[first + d], v.s[first + d], -1)
    return finish_lookups(c, found, v.data, rank, c.n, c.to.s, c.b, s)
