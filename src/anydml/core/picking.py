# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The functions that pick elements by indices, and what all calls that look elements up have in common.

Each gives None for what Python has to do, or refuse.
"""

import cython
from cython.cimports.anydml.core.arrays import RANK, View, apart, number, read, read_indices
from cython.cimports.anydml.core.batch import REFUSE, Batch, add, add_looking, begin, look_up, run_all
from cython.cimports.anydml.core.indices import are_accepted, as_indices, is_text, place
from cython.cimports.anydml.core.moving import ANYDML_CLAMP
from cython.cimports.anydml.core.views import axis_of, result
from cython.cimports.libc.stdint import int64_t

FEW = cython.declare(cython.int, 8)
"""Indices each of which is a move of its own: as many columns are woven at once."""


def opened(c, x, indices):
    """Read an array and its indices; gives the indices as they are looked at, to be held until all is done."""
    if read(x, cython.address(c.x), cython.address(c.kind)):
        return None
    indices = as_indices(indices)
    if read_indices(indices, cython.address(c.kind), cython.address(c.indices), cython.address(c.type)):
        return None
    return indices


def begun(c, out, rank, n):
    """Where the result of a shape goes, with no moves yet: a new array, or the caller's, if that lies apart."""
    to: cython.pointer(View) = cython.address(c.to)
    found = result(cython.address(c.kind), cython.address(c.x), out, rank, n, to)
    if found is not None and out is not None:
        if not apart(to, c.kind.element, cython.address(c.indices), abs(c.type)):
            return None
    begin(cython.address(c.batch))
    return found


def looked_up(c, found, source, rank, n, a, b, looks, strides):
    """Do what was begun, last the move whose lookups were given last."""
    batch: cython.pointer(Batch) = cython.address(c.batch)
    if add_looking(batch, c.to.data, source, c.kind.element, rank, n, a, b, looks, strides):
        return None
    run_all(batch)
    return None if batch.refused else found


def outside_of(c, word, sizes, are_coordinates, is_late):
    """What lookups do with indices outside an axis; −2 for what Python has to refuse.

    Those of a new result may be looked at as late as they are used.
    """
    if is_late and is_text(word) and word == "error":
        return REFUSE
    v: cython.pointer(cython.const[View]) = cython.address(c.indices)
    return ANYDML_CLAMP if are_accepted(word, "clamp", v, c.type, sizes, are_coordinates) else -2


def add_plane(c, into, source, along):
    """A copy of all that one index picks; returns as `add`."""
    n: int64_t[64]
    a: int64_t[64]
    b: int64_t[64]
    d: cython.int
    rank: cython.int = 0
    for d in range(c.x.rank):
        if d != along:
            n[rank] = c.x.n[d]
            a[rank] = c.to.s[d if d < along else d - 1 + c.indices.rank]
            b[rank] = c.x.s[d]
            rank += 1
    return add(cython.address(c.batch), into, source, c.kind.element, rank, n, a, b)


def gather(x, indices, axis, out_of_range, out):
    """``result[lead, i, trail] = x[lead, indices[i], trail]``."""
    c: Call
    v: cython.pointer(View) = cython.address(c.x)
    w: cython.pointer(View) = cython.address(c.indices)
    along: int64_t
    n: int64_t[64]
    b: int64_t[64]
    s: int64_t[64]
    d: cython.int
    at: int64_t
    into: cython.p_char
    strides: cython.pointer(cython.const[int64_t])[1]
    indices = opened(cython.address(c), x, indices)
    if indices is None or axis_of(axis, v.rank, cython.address(along)) or v.rank - 1 + w.rank > RANK:
        return None
    rank: cython.int = v.rank - 1 + w.rank
    total: int64_t = 1
    for d in range(rank):
        if along <= d < along + w.rank:
            n[d] = w.n[d - along]
            s[d] = w.s[d - along]
            b[d] = 0
            total *= n[d]
        else:
            n[d] = v.n[d if d < along else d - w.rank + 1]
            b[d] = v.s[d if d < along else d - w.rank + 1]
            s[d] = 0
    few: cython.bint = w.rank <= 1 and total and (not w.rank or w.n[0] <= FEW)
    outside: cython.int = outside_of(
        cython.address(c), out_of_range, cython.address(v.n[along]), False, out is None and not few
    )
    if outside == -2 or (total and not v.n[along]):
        return None
    found = begun(cython.address(c), out, rank, n)
    if found is None:
        return None
    if few:
        # Copies of planes: those of short columns are woven together.
        for d in range(w.n[0] if w.rank else 1):
            place(w.data + d * (w.s[0] if w.rank else 0), c.type, v.n[along], cython.address(at))
            into = c.to.data + d * (c.to.s[along] if w.rank else 0)
            if add_plane(cython.address(c), into, v.data + at * v.s[along], along):
                return None
        run_all(cython.address(c.batch))
        return found
    look_up(cython.address(c.batch), w.data, c.type, v.n[along], v.s[along], outside, -1)
    strides[0] = s
    return looked_up(cython.address(c), found, v.data, rank, n, c.to.s, b, 1, strides)


def gather_elements(x, indices, axis, out_of_range, out):
    """``result[c] = x[c with c[axis] := indices[c]]``."""
    c: Call
    v: cython.pointer(View) = cython.address(c.x)
    w: cython.pointer(View) = cython.address(c.indices)
    along: int64_t
    b: int64_t[64]
    d: cython.int
    total: int64_t = 1
    strides: cython.pointer(cython.const[int64_t])[1]
    indices = opened(cython.address(c), x, indices)
    if indices is None or axis_of(axis, v.rank, cython.address(along)) or w.rank != v.rank:
        return None
    for d in range(v.rank):
        if d != along and w.n[d] > v.n[d]:
            return None
        b[d] = 0 if d == along else v.s[d]
        total *= w.n[d]
    outside: cython.int = outside_of(cython.address(c), out_of_range, cython.address(v.n[along]), False, out is None)
    if outside == -2 or (total and not v.n[along]):
        return None
    found = begun(cython.address(c), out, w.rank, w.n)
    if found is None:
        return None
    look_up(cython.address(c.batch), w.data, c.type, v.n[along], v.s[along], outside, -1)
    strides[0] = w.s
    return looked_up(cython.address(c), found, v.data, w.rank, w.n, c.to.s, b, 1, strides)


def gather_nd(x, indices, batch_dims, out_of_range, out):
    """``result[b, c] = x[b, *indices[b, c]]``."""
    c: Call
    v: cython.pointer(View) = cython.address(c.x)
    w: cython.pointer(View) = cython.address(c.indices)
    first: int64_t
    n: int64_t[64]
    b: int64_t[64]
    s: int64_t[64]
    d: cython.int
    own: cython.int
    is_empty: cython.bint = False
    strides: cython.pointer(cython.const[int64_t])[16]
    indices = opened(cython.address(c), x, indices)
    if indices is None or number(batch_dims, cython.address(first)) or not w.rank or w.n[w.rank - 1] > 16:
        return None
    length: cython.int = w.n[w.rank - 1]
    last: cython.int = w.rank - 1
    if not 0 <= first < w.rank or first > v.rank or length > v.rank - first:
        return None
    rank: cython.int = last + v.rank - first - length
    if rank > RANK:
        return None
    for d in range(first):
        if v.n[d] != w.n[d]:
            return None
    for d in range(rank):
        own = d - last + first + length
        n[d] = w.n[d] if d < last else v.n[own]
        s[d] = w.s[d] if d < last else 0
        b[d] = v.s[d] if d < first else 0 if d < last else v.s[own]
        is_empty = is_empty or not n[d]
    for d in range(length):
        if not is_empty and not v.n[first + d]:
            return None
    outside: cython.int = outside_of(cython.address(c), out_of_range, v.n + first, True, out is None)
    if outside == -2:
        return None
    found = begun(cython.address(c), out, rank, n)
    if found is None:
        return None
    for d in range(length):
        at: cython.p_char = w.data + d * w.s[last]
        look_up(cython.address(c.batch), at, c.type, v.n[first + d], v.s[first + d], outside, -1)
        strides[d] = s
    return looked_up(cython.address(c), found, v.data, rank, n, c.to.s, b, length, strides)
