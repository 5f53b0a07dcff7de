# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The functions that pick elements by indices.

Each gives None for what Python has to do, or refuse.
"""

import cython
from cython.cimports.anydml.core.arrays import RANK, Kind, View, apart, number, read, read_indices
from cython.cimports.anydml.core.batch import REFUSE, Batch, add, add_looking, begin, look_up, run_all
from cython.cimports.anydml.core.indices import are_accepted, as_indices, is_text, place
from cython.cimports.anydml.core.moving import ANYDML_CLAMP
from cython.cimports.anydml.core.views import axis_of, result
from cython.cimports.libc.stdint import int64_t

FEW = cython.declare(cython.int, 8)
"""Indices each of which is a move of its own: as many columns are woven at once."""


def is_error(word):
    """Whether a call refuses indices outside: those of a new result are looked at as they are used."""
    return is_text(word) and word == "error"


def add_plane(batch, into, to, own, source, v, along, element):
    """A copy of all that one index picks; returns as `add`."""
    n: int64_t[64]
    a: int64_t[64]
    b: int64_t[64]
    d: cython.int
    rank: cython.int = 0
    for d in range(v.rank):
        if d != along:
            n[rank] = v.n[d]
            a[rank] = to.s[d if d < along else d - 1 + own]
            b[rank] = v.s[d]
            rank += 1
    return add(batch, into, source, element, rank, n, a, b)


def gather(x, indices, axis, out_of_range, out):
    """``result[lead, i, trail] = x[lead, indices[i], trail]``."""
    v: View
    w: View
    to: View
    k: Kind
    batch: Batch
    along: int64_t
    type: cython.int
    n: int64_t[64]
    b: int64_t[64]
    s: int64_t[64]
    d: cython.int
    at: int64_t
    into: cython.p_char
    strides: cython.pointer(cython.const[int64_t])[1]
    if read(x, cython.address(v), cython.address(k)) or axis_of(axis, v.rank, cython.address(along)):
        return None
    indices = as_indices(indices)
    if read_indices(indices, cython.address(k), cython.address(w), cython.address(type)) or v.rank - 1 + w.rank > RANK:
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
    late: cython.bint = not few and out is None and is_error(out_of_range)
    if not late and not are_accepted(out_of_range, "clamp", cython.address(w), type, cython.address(v.n[along]), False):
        return None
    if total and not v.n[along]:
        return None
    found = result(cython.address(k), cython.address(v), out, rank, n, cython.address(to))
    if found is None:
        return None
    if out is not None and not apart(cython.address(to), k.element, cython.address(w), abs(type)):
        return None
    begin(cython.address(batch))
    if few:
        # Copies of planes: those of short columns are woven together.
        for d in range(w.n[0] if w.rank else 1):
            place(w.data + d * (w.s[0] if w.rank else 0), type, v.n[along], cython.address(at))
            into = to.data + d * (to.s[along] if w.rank else 0)
            if add_plane(cython.address(batch), into, cython.address(to), w.rank, v.data + at * v.s[along],
                         cython.address(v), along, k.element):  # fmt: skip
                return None
        run_all(cython.address(batch))
        return found
    outside: cython.int = REFUSE if late else ANYDML_CLAMP
    look_up(cython.address(batch), w.data, type, v.n[along], v.s[along], outside, -1)
    strides[0] = s
    if add_looking(cython.address(batch), to.data, v.data, k.element, rank, n, to.s, b, 1, strides):
        return None
    run_all(cython.address(batch))
    return None if batch.refused else found


def gather_elements(x, indices, axis, out_of_range, out):
    """``result[c] = x[c with c[axis] := indices[c]]``."""
    v: View
    w: View
    to: View
    k: Kind
    batch: Batch
    along: int64_t
    type: cython.int
    b: int64_t[64]
    d: cython.int
    total: int64_t = 1
    strides: cython.pointer(cython.const[int64_t])[1]
    if read(x, cython.address(v), cython.address(k)) or axis_of(axis, v.rank, cython.address(along)):
        return None
    indices = as_indices(indices)
    if read_indices(indices, cython.address(k), cython.address(w), cython.address(type)) or w.rank != v.rank:
        return None
    for d in range(v.rank):
        if d != along and w.n[d] > v.n[d]:
            return None
        b[d] = 0 if d == along else v.s[d]
        total *= w.n[d]
    late: cython.bint = out is None and is_error(out_of_range)
    if not late and not are_accepted(out_of_range, "clamp", cython.address(w), type, cython.address(v.n[along]), False):
        return None
    if total and not v.n[along]:
        return None
    found = result(cython.address(k), cython.address(v), out, w.rank, w.n, cython.address(to))
    if found is None:
        return None
    if out is not None and not apart(cython.address(to), k.element, cython.address(w), abs(type)):
        return None
    begin(cython.address(batch))
    outside: cython.int = REFUSE if late else ANYDML_CLAMP
    look_up(cython.address(batch), w.data, type, v.n[along], v.s[along], outside, -1)
    strides[0] = w.s
    if add_looking(cython.address(batch), to.data, v.data, k.element, w.rank, w.n, to.s, b, 1, strides):
        return None
    run_all(cython.address(batch))
    return None if batch.refused else found


def gather_nd(x, indices, batch_dims, out_of_range, out):
    """``result[b, c] = x[b, *indices[b, c]]``."""
    v: View
    w: View
    to: View
    k: Kind
    batch: Batch
    first: int64_t
    type: cython.int
    n: int64_t[64]
    b: int64_t[64]
    s: int64_t[64]
    d: cython.int
    own: cython.int
    is_empty: cython.bint = False
    strides: cython.pointer(cython.const[int64_t])[16]
    if read(x, cython.address(v), cython.address(k)) or number(batch_dims, cython.address(first)):
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
    late: cython.bint = out is None and is_error(out_of_range)
    if not late and not are_accepted(out_of_range, "clamp", cython.address(w), type, v.n + first, True):
        return None
    found = result(cython.address(k), cython.address(v), out, rank, n, cython.address(to))
    if found is None:
        return None
    if out is not None and not apart(cython.address(to), k.element, cython.address(w), abs(type)):
        return None
    outside: cython.int = REFUSE if late else ANYDML_CLAMP
    begin(cython.address(batch))
    for d in range(length):
        at: cython.p_char = w.data + d * w.s[last]
        look_up(cython.address(batch), at, type, v.n[first + d], v.s[first + d], outside, -1)
        strides[d] = s
    if add_looking(cython.address(batch), to.data, v.data, k.element, rank, n, to.s, b, length, strides):
        return None
    run_all(cython.address(batch))
    return None if batch.refused else found
