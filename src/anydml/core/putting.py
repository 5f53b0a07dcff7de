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
    read_indices,
    read_mask,
    target,
    tell,
)
from cython.cimports.anydml.core.batch import Batch, add, add_looking, begin, look_up, run_all
from cython.cimports.anydml.core.indices import are_accepted, as_indices, place
from cython.cimports.anydml.core.moving import ANYDML_SKIP
from cython.cimports.anydml.core.views import axis_of, result
from cython.cimports.libc.stdint import int64_t


def put_into(k, x, given, out, indices, updates, to):
    """Where updates of x go: a result, or x itself where that is what the caller gives as `out`."""
    if out is None or out is not given:
        found = result(k, x, out, x.rank, x.n, to)
    else:
        found = None if target(out, k, x.rank, x.n, to) else out
    if found is None or out is None:
        return found
    if not (apart(to, k.element, indices, 8) and apart(to, k.element, updates, k.element)):
        return None
    if out is given:
        tell(out, k)
    return out


def scatter(x, indices, updates, axis, out_of_range, out):
    """``result = x; result[c with c[axis] := indices[c]] = updates[c]``; the last update of an element stays."""
    v: View
    w: View
    u: View
    to: View
    k: Kind
    batch: Batch
    along: int64_t
    type: cython.int
    a: int64_t[64]
    d: cython.int
    strides: cython.pointer(cython.const[int64_t])[1]
    if read(x, cython.address(v), cython.address(k)) or axis_of(axis, v.rank, cython.address(along)):
        return None
    indices = as_indices(indices)
    if read_indices(indices, cython.address(k), cython.address(w), cython.address(type)) or w.rank != v.rank:
        return None
    if read_alike(updates, cython.address(u), cython.address(k)) or u.rank != v.rank:
        return None
    for d in range(v.rank):
        if (d != along and w.n[d] > v.n[d]) or u.n[d] != w.n[d]:
            return None
    if not are_accepted(out_of_range, "skip", cython.address(w), type, cython.address(v.n[along]), False):
        return None
    found = put_into(
        cython.address(k), cython.address(v), x, out, cython.address(w), cython.address(u), cython.address(to)
    )
    if found is None:
        return None
    begin(cython.address(batch))
    if found is not x and add(cython.address(batch), to.data, v.data, k.element, v.rank, v.n, to.s, v.s):
        return None
    for d in range(v.rank):
        a[d] = 0 if d == along else to.s[d]
    look_up(cython.address(batch), w.data, type, v.n[along], to.s[along], ANYDML_SKIP, -2)
    strides[0] = w.s
    if add_looking(cython.address(batch), to.data, u.data, k.element, w.rank, w.n, a, u.s, 1, strides):
        return None
    run_all(cython.address(batch))
    return found


def scatter_nd(x, indices, updates, out_of_range, out):
    """``result = x; result[*indices[c]] = updates[c]``; the last update of an element stays."""
    v: View
    w: View
    u: View
    to: View
    k: Kind
    batch: Batch
    type: cython.int
    n: int64_t[64]
    a: int64_t[64]
    s: int64_t[64]
    d: cython.int
    strides: cython.pointer(cython.const[int64_t])[16]
    if read(x, cython.address(v), cython.address(k)):
        return None
    indices = as_indices(indices)
    if (
        read_indices(indices, cython.address(k), cython.address(w), cython.address(type))
        or not w.rank
        or w.n[w.rank - 1] > 16
    ):
        return None
    length: cython.int = w.n[w.rank - 1]
    last: cython.int = w.rank - 1
    rank: cython.int = last + v.rank - length
    if length > v.rank or rank > RANK:
        return None
    if read_alike(updates, cython.address(u), cython.address(k)) or u.rank != rank:
        return None
    for d in range(rank):
        if u.n[d] != (w.n[d] if d < last else v.n[d - last + length]):
            return None
    if not are_accepted(out_of_range, "skip", cython.address(w), type, v.n, True):
        return None
    found = put_into(
        cython.address(k), cython.address(v), x, out, cython.address(w), cython.address(u), cython.address(to)
    )
    if found is None:
        return None
    begin(cython.address(batch))
    if found is not x and add(cython.address(batch), to.data, v.data, k.element, v.rank, v.n, to.s, v.s):
        return None
    for d in range(rank):
        n[d] = u.n[d]
        if not length and d < last and n[d]:
            # All updates are of one place: the last one stays.
            u.data += (n[d] - 1) * u.s[d]
            n[d] = 1
        a[d] = 0 if d < last else to.s[d - last + length]
        s[d] = w.s[d] if d < last else 0
    for d in range(length):
        at: cython.p_char = w.data + d * w.s[last]
        look_up(cython.address(batch), at, type, v.n[d], to.s[d], ANYDML_SKIP, -2)
        strides[d] = s
    if add_looking(cython.address(batch), to.data, u.data, k.element, rank, n, a, u.s, length, strides):
        return None
    run_all(cython.address(batch))
    return found


def one_hot(indices, values, depth, axis, out_of_range, out):
    """One value where an index points, another elsewhere."""
    v: View
    w: View
    to: View
    k: Kind
    batch: Batch
    size: int64_t
    along: int64_t
    type: cython.int
    n: int64_t[64]
    a: int64_t[64]
    still: int64_t[64]
    d: cython.int
    strides: cython.pointer(cython.const[int64_t])[1]
    if read(values, cython.address(v), cython.address(k)) or v.rank != 1 or v.n[0] != 2:
        return None
    indices = as_indices(indices)
    if read_indices(indices, cython.address(k), cython.address(w), cython.address(type)) or w.rank >= RANK:
        return None
    if number(depth, cython.address(size)) or size < 0 or axis_of(axis, w.rank + 1, cython.address(along)):
        return None
    if not are_accepted(out_of_range, "skip", cython.address(w), type, cython.address(size), False):
        return None
    for d in range(w.rank + 1):
        n[d] = size if d == along else w.n[d - (d > along)]
        still[d] = 0
    found = result(cython.address(k), cython.address(v), out, w.rank + 1, n, cython.address(to))
    if found is None:
        return None
    if out is not None and not apart(cython.address(to), k.element, cython.address(w), abs(type)):
        return None
    begin(cython.address(batch))
    if add(cython.address(batch), to.data, v.data, k.element, w.rank + 1, n, to.s, still):
        return None
    for d in range(w.rank):
        a[d] = to.s[d + (d >= along)]
    look_up(cython.address(batch), w.data, type, size, to.s[along], ANYDML_SKIP, -2)
    strides[0] = w.s
    if add_looking(cython.address(batch), to.data, v.data + v.s[0], k.element, w.rank, w.n, a, still, 1, strides):
        return None
    run_all(cython.address(batch))
    return found


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
    v: View
    w: View
    m: View
    to: View
    k: Kind
    batch: Batch
    n: int64_t[64]
    first: int64_t[64]
    second: int64_t[64]
    mask: int64_t[64]
    d: cython.int
    strides: cython.pointer(cython.const[int64_t])[1]
    if read(x, cython.address(v), cython.address(k)) or read_alike(y, cython.address(w), cython.address(k)):
        return None
    if read_mask(condition, cython.address(k), cython.address(m)):
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
    if (
        spread(cython.address(v), rank, n, first)
        or spread(cython.address(w), rank, n, second)
        or spread(cython.address(m), rank, n, mask)
    ):
        return None
    found = result(cython.address(k), cython.address(v), out, rank, n, cython.address(to))
    if found is None:
        return None
    if out is not None and not (
        apart(cython.address(to), k.element, cython.address(w), k.element)
        and apart(cython.address(to), k.element, cython.address(m), 1)
    ):
        return None
    begin(cython.address(batch))
    if add(cython.address(batch), to.data, v.data, k.element, rank, n, to.s, first):
        return None
    # A byte of 0 is the one index inside an axis of one element.
    look_up(cython.address(batch), m.data, 1, 1, 0, ANYDML_SKIP, -1)
    strides[0] = mask
    if add_looking(cython.address(batch), to.data, w.data, k.element, rank, n, to.s, second, 1, strides):
        return None
    run_all(cython.address(batch))
    return found


def reverse_subsequences(x, lengths, axis, out):
    """The first elements of each row backwards, the others as they are."""
    v: View
    w: View
    to: View
    k: Kind
    batch: Batch
    along: int64_t
    type: cython.int
    offset: int64_t
    c: int64_t[64]
    n: int64_t[1]
    a: int64_t[1]
    b: int64_t[1]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)) or axis_of(axis, v.rank, cython.address(along)):
        return None
    lengths = as_indices(lengths)
    if read_indices(lengths, cython.address(k), cython.address(w), cython.address(type)) or w.rank != v.rank:
        return None
    rows: int64_t = 1
    for d in range(v.rank):
        c[d] = 0
        if w.n[d] != (1 if d == along else v.n[d]):
            return None
        rows *= w.n[d]
    found = result(cython.address(k), cython.address(v), out, v.rank, v.n, cython.address(to))
    if found is None:
        return None
    if out is not None and not apart(cython.address(to), k.element, cython.address(w), abs(type)):
        return None
    begin(cython.address(batch))
    size: int64_t = v.n[along]
    at: cython.p_char = to.data
    source: cython.p_char = v.data
    length: cython.p_char = w.data
    a[0] = to.s[along]
    while rows > 0:
        # A length is an index of size + 1 places, worth a byte each.
        place(length, type, size + 1, cython.address(offset))
        n[0] = offset
        b[0] = -v.s[along]
        if add(cython.address(batch), at, source + (offset - 1) * v.s[along], k.element, 1, n, a, b):
            return None
        n[0] = size - offset
        b[0] = v.s[along]
        if add(cython.address(batch), at + offset * a[0], source + offset * b[0], k.element, 1, n, a, b):
            return None
        rows -= 1
        for d in range(v.rank - 1, -1, -1):
            if d == along:
                continue
            at += to.s[d]
            source += v.s[d]
            length += w.s[d]
            c[d] += 1
            if c[d] < v.n[d]:
                break
            at -= to.s[d] * v.n[d]
            source -= v.s[d] * v.n[d]
            length -= w.s[d] * v.n[d]
            c[d] = 0
    run_all(cython.address(batch))
    return found
