"""Functions that gather elements by indices, and common parts of all calls with lookups."""

import cython
import numpy as np
from cython.cimports.anydml.core.arguments import read_axis, read_count
from cython.cimports.anydml.core.arrays import RANK, View, read_indices
from cython.cimports.anydml.core.calls import (
    REFUSE,
    add_lookup,
    add_move,
    begin,
    finish,
    finish_lookups,
    make_result,
    read_outside,
)
from cython.cimports.anydml.core.moving import ANYDML_CLAMP, ANYDML_LOOKUPS
from cython.cimports.libc.stdint import int32_t, uint32_t, uint64_t

from anydml.strides import in_words

MOST_INDICES = cython.declare(int64_t, 1 << 60)
"""This many INT64 numbers would exceed the address space."""

FEW = cython.declare(cython.int, 8)
"""Maximum number of indices with one move each; also of columns that are woven at once."""


def as_indices(given):
    """Return an array of indices: lists are converted, narrow or byte-swapped integers widened or swapped."""
    if type(given) is not np.ndarray:
        # Other libraries' arrays are returned unchanged.
        if not isinstance(given, (list, tuple, int)) or isinstance(given, bool):
            return given
        try:
            given = np.asarray(given)
        except (TypeError, ValueError):
            return given
        if given.dtype.kind == "f" and not given.size:
            # An empty list.
            return in_words(given)
    dtype = given.dtype
    if dtype.kind in "iu" and (dtype.itemsize < 4 or not dtype.isnative) and given.size < MOST_INDICES:
        return in_words(given)
    return given


def resolve_index(at, type, size, offset):
    """Convert an index to 0 to size − 1: a negative one counts from the end, then it is clamped.

    Returns whether it was out of range.
    """
    if type == 8 and cython.cast(cython.pointer(uint64_t), at)[0] >= cython.cast(uint64_t, size):
        i = size
    elif type == 4:
        i = cython.cast(cython.pointer(uint32_t), at)[0]
    elif type == -4:
        i = cython.cast(cython.pointer(int32_t), at)[0]
    else:
        i = cython.cast(cython.pointer(int64_t), at)[0]
    if i < 0:
        i += size
    offset[0] = max(0, min(i, size - 1))
    return offset[0] != i


def begin_lookup(c, x, indices, out_of_range, other):
    """Begin a call on an array and indices, whose treatment out of range is "error" or `other` (see `read_outside`).

    Returns the converted indices, which must outlive the call; None to fall back to Python.
    """
    if begin(c, x) or read_outside(c, out_of_range, other):
        return None
    indices = as_indices(indices)
    return None if read_indices(indices, c.kind, c.indices, cython.address(c.type)) else indices


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


def read_lookup_axis(c, given):
    """Read the axis of an elementwise lookup; returns −1 if the indices' rank or sizes do not fit the array."""
    along = -1 if c.indices.rank != c.x.rank else read_axis(given, c.x.rank)
    for d in range(c.x.rank if along >= 0 else 0):
        if d != along and c.indices.n[d] > c.x.n[d]:
            return -1
    return along


def gather(x, indices, axis, out_of_range, out):
    """``result[lead, i, trail] = x[lead, indices[i], trail]``."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    at: int64_t
    indices = begin_lookup(c, x, indices, out_of_range, ANYDML_CLAMP)
    if indices is None or (along := read_axis(axis, v.rank)) < 0 or v.rank - 1 + w.rank > RANK:
        return None
    rank = v.rank - 1 + w.rank
    total: int64_t = 1
    for d in range(rank):
        if along <= d < along + w.rank:
            c.n[d] = w.n[d - along]
            c.s[d] = w.s[d - along]
            c.b[d] = 0
            total *= c.n[d]
        else:
            own = d if d < along else d - w.rank + 1
            c.n[d] = v.n[own]
            c.b[d] = v.s[own]
            c.s[d] = 0
    size = v.n[along]
    if total and not size:
        return None
    found = make_result(c, out, rank, c.n)
    if w.rank > 1 or not total or (w.rank and w.n[0] > FEW):
        add_lookup(c, w.data, size, v.s[along], -1)
        return finish_lookups(c, found, v.data, rank, c.n, c.to.s, c.b, c.s)
    # Copies of planes; those of short columns are woven together.
    for d in range(w.n[0] if w.rank else 1):
        place = w.data + d * w.s[0] if w.rank else w.data
        if resolve_index(place, c.type, size, cython.address(at)) and c.outside == REFUSE:
            return None
        add_plane(c, c.to.data + d * (c.to.s[along] if w.rank else 0), v.data + at * v.s[along], along)
    return finish(c, found)


def slices_at(x, places, axis):
    """Return the slices of x along an axis at places in range."""
    return gather(x, places, axis, "clamp", None)


def gather_elements(x, indices, axis, out_of_range, out):
    """``result[c] = x[c with c[axis] := indices[c]]``."""
    c: Call[1]
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    indices = begin_lookup(c, x, indices, out_of_range, ANYDML_CLAMP)
    if indices is None or (along := read_lookup_axis(c, axis)) < 0:
        return None
    for d in range(v.rank):
        c.b[d] = 0 if d == along else v.s[d]
    found = make_result(c, out, w.rank, w.n)
    add_lookup(c, w.data, v.n[along], v.s[along], -1)
    return finish_lookups(c, found, v.data, w.rank, w.n, c.to.s, c.b, w.s)


def read_tuples(c, first):
    """Set the sizes and the indices' strides of the box of what tuples of indices pick, after `first` batch dimensions.

    Returns its rank, or −1 if the tuples do not fit the array.
    """
    v: cython.pointer(View) = c.x
    w: cython.pointer(View) = c.indices
    last = w.rank - 1
    if not 0 <= first < w.rank or first > v.rank or w.n[last] > min(v.rank - first, ANYDML_LOOKUPS):
        return -1
    for d in range(first):
        if v.n[d] != w.n[d]:
            return -1
    skipped: cython.int = first + w.n[last] - last
    for d in range(min(v.rank - skipped, RANK)):
        c.n[d] = w.n[d] if d < last else v.n[d + skipped]
        c.s[d] = w.s[d] if d < last else 0
    return v.rank - skipped if v.rank - skipped <= RANK else -1


def add_tuple_lookups(c, first, strides, still, into):
    """Add a lookup for each index of tuples, in an array of x's shape and these strides.

    Sets the strides, but for the lookups, of the elements picked.
    """
    w: cython.pointer(View) = c.indices
    last = w.rank - 1
    length: cython.int = w.n[last]
    for d in range(last + c.x.rank - first - length):
        still[d] = strides[d] if d < first else 0 if d < last else strides[d - last + first + length]
    for d in range(length):
        add_lookup(c, w.data + d * w.s[last], c.x.n[first + d], strides[first + d], into)


def gather_nd(x, indices, batch_dims, out_of_range, out):
    """``result[b, c] = x[b, *indices[b, c]]``."""
    c: Call[1]
    indices = begin_lookup(c, x, indices, out_of_range, ANYDML_CLAMP)
    if indices is None or (first := read_count(batch_dims)) < 0 or (rank := read_tuples(c, first)) < 0:
        return None
    found = make_result(c, out, rank, c.n)
    add_tuple_lookups(c, first, c.x.s, c.b, -1)
    return finish_lookups(c, found, c.x.data, rank, c.n, c.to.s, c.b, c.s)
