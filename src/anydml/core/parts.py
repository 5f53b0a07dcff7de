# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The functions that cut one array along an axis, and that join several.

Each gives None for what Python has to do, or refuse.
"""

import cython
import numpy as np
from cython.cimports.anydml.core.arrays import (
    RANK,
    Kind,
    View,
    apart,
    make,
    number,
    one,
    read,
    read_alike,
    target,
    tell,
)
from cython.cimports.anydml.core.batch import Batch, add, begin, run_all
from cython.cimports.anydml.core.views import axis_of
from cython.cimports.cpython.mem import PyMem_Free, PyMem_Malloc
from cython.cimports.libc.stdint import int64_t

MOST_ITEMS = cython.declare(int64_t, 1 << 24)
"""Parts: an array each."""

MOST = cython.declare(int64_t, (1 << 63) - 1)
"""Elements along an axis."""


def fit(k, x, axis, count, equal, sizes, out):
    """Whether the caller's arrays are the parts', in order in memory; returns 1 where Python looks closer."""
    v: View
    before: View
    n: int64_t[64]
    i: cython.int
    if len(out) != count:
        return 1
    for i in range(x.rank):
        n[i] = x.n[i]
    for i in range(count):
        n[axis] = equal
        if equal < 0:
            number(sizes[i], cython.address(n[axis]))
        if target(out[i], k, x.rank, n, cython.address(v)) or not apart(cython.address(v), k.element, x, k.element):
            return 1
        if i and not (before.data <= v.data and apart(cython.address(v), k.element, cython.address(before), k.element)):
            return 1
        before = v
        if v.s == v.own:
            before.s = before.own
    return 0


def cut(k, x, axis, count, equal, sizes, out):
    """Parts of an axis: so many of `equal` elements, or, if that is negative, of these sizes, which add up to it."""
    v: View
    batch: Batch
    n: int64_t[64]
    i: cython.int
    start: int64_t = 0
    given: tuple = ()
    parts: list = []
    if out is not None:
        if not isinstance(out, (list, tuple)):
            return None
        given = tuple(out)
        if fit(k, x, axis, count, equal, sizes, given):
            return None
    begin(cython.address(batch))
    for i in range(x.rank):
        n[i] = x.n[i]
    for i in range(count):
        n[axis] = equal
        if equal < 0:
            number(sizes[i], cython.address(n[axis]))
        if out is None:
            part = make(k, x.rank, n, cython.address(v))
            if part is None:
                return None
        else:
            part = given[i]
            read_alike(part, cython.address(v), k)
            tell(part, k)
        parts.append(part)
        if add(cython.address(batch), v.data, x.data + start * x.s[axis], k.element, x.rank, n, v.s, x.s):
            return None
        start += n[axis]
    run_all(cython.address(batch))
    return parts


def split(x, sizes_or_sections, axis, out):
    """Parts by their number or their sizes."""
    v: View
    k: Kind
    along: int64_t
    count: int64_t
    size: int64_t
    total: int64_t = 0
    if read(x, cython.address(v), cython.address(k)) or axis_of(axis, v.rank, cython.address(along)):
        return None
    if not one(sizes_or_sections, cython.address(count)):
        if count < 1 or count > MOST_ITEMS or v.n[along] % count:
            return None
        return cut(cython.address(k), cython.address(v), along, count, v.n[along] // count, (), out)
    if not isinstance(sizes_or_sections, (list, tuple)):
        return None
    sizes: tuple = tuple(sizes_or_sections)
    for each in sizes:
        if number(each, cython.address(size)) or size < 0 or size > v.n[along] - total:
            return None
        total += size
    if not sizes or total != v.n[along]:
        return None
    return cut(cython.address(k), cython.address(v), along, len(sizes), -1, sizes, out)


def split_training(x, split_sizes, axis, num_outputs, out):
    """Parts by sizes that are data."""
    if type(split_sizes) is np.ndarray:
        if split_sizes.ndim != 1 or split_sizes.dtype.kind not in "iu" or split_sizes.size > MOST_ITEMS:
            return None
        split_sizes = split_sizes.tolist()
    if type(split_sizes) is not list and type(split_sizes) is not tuple:
        return None
    for each in split_sizes:
        # NumPy makes arrays of bools of bools, which are no sizes.
        if isinstance(each, bool):
            return None
    if num_outputs is None:
        return split(x, split_sizes, axis, out) if len(split_sizes) else None
    if not isinstance(num_outputs, int):
        return None
    if not len(split_sizes):
        return split(x, num_outputs, axis, out)
    return split(x, split_sizes, axis, out) if num_outputs == len(split_sizes) else None


def joined(arrays, axis, out, is_new):
    """Arrays one behind the other along an axis, which is a new one, or theirs."""
    seen: cython.pointer(Part) = cython.cast(cython.pointer(Part), PyMem_Malloc(len(arrays) * cython.sizeof(Part)))
    if seen == cython.NULL:
        raise MemoryError
    try:
        return put_together(seen, arrays, axis, out, is_new)
    finally:
        PyMem_Free(seen)


def put_together(part, arrays, axis, out, is_new):
    """The same, with room for what is seen of each array."""
    v: View
    w: View
    to: View
    k: Kind
    batch: Batch
    n: int64_t[64]
    a: int64_t[64]
    b: int64_t[64]
    along: int64_t
    d: cython.int
    i: cython.int
    count: cython.int = len(arrays)
    if not count or read(arrays[0], cython.address(v), cython.address(k)):
        return None
    rank: cython.int = v.rank + is_new
    if rank > RANK or axis_of(axis, rank, cython.address(along)):
        return None
    total: int64_t = 0
    for i in range(count):
        if i and (read_alike(arrays[i], cython.address(w), cython.address(k)) or w.rank != v.rank):
            return None
        if i == 0:
            w = v
            if v.s == v.own:
                w.s = w.own
        for d in range(v.rank):
            if w.n[d] != v.n[d] and (is_new or d != along):
                return None
        part[i].data = w.data
        part[i].length = 1 if is_new else w.n[along]
        part[i].s = w.units if w.s == w.own else w.s
        part[i].unit = k.element if w.s == w.own else 1
        # Arrays that are broadcast may have more elements together than numbers here can count.
        if part[i].length > MOST - total:
            return None
        total += part[i].length
    for d in range(rank):
        n[d] = total if d == along else v.n[d - (is_new and d > along)]
    if out is None:
        out = make(cython.address(k), rank, n, cython.address(to))
        if out is None:
            return None
    else:
        if target(out, cython.address(k), rank, n, cython.address(to)):
            return None
        for i in range(count):
            read_alike(arrays[i], cython.address(w), cython.address(k))
            if not apart(cython.address(to), k.element, cython.address(w), k.element):
                return None
        tell(out, cython.address(k))
    for d in range(v.rank):
        a[d] = to.s[d + (is_new and d >= along)]
    begin(cython.address(batch))
    at: cython.p_char = to.data
    for d in range(v.rank):
        n[d] = v.n[d]
    for i in range(count):
        if not is_new:
            n[along] = part[i].length
        for d in range(v.rank):
            b[d] = part[i].s[d] * part[i].unit
        if add(cython.address(batch), at, part[i].data, k.element, v.rank, n, a, b):
            return None
        at += to.s[along] * part[i].length
    run_all(cython.address(batch))
    return out


def join(arrays, axis, out):
    """Arrays one behind the other."""
    if not isinstance(arrays, (list, tuple)):
        return None
    return joined(tuple(arrays), axis, out, False)


def stack(arrays, axis, out):
    """Arrays of one shape along a new axis."""
    if not isinstance(arrays, (list, tuple)):
        return None
    return joined(tuple(arrays), axis, out, True)


def concat_training(arrays, axis, out):
    """`join`, and the arrays' lengths."""
    if not isinstance(arrays, (list, tuple)):
        return None
    given: tuple = tuple(arrays)
    if not given or type(given[0]) is not np.ndarray:
        return None
    found = joined(given, axis, out, False)
    if found is None:
        return None
    return found, np.array([each.shape[axis] for each in given], np.int64)
