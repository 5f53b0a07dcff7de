"""Indices: arrays of integers, and whether they lie on their axes.

Each gives None for what Python has to do, or refuse.
"""

import cython
import numpy as np
from cython.cimports.anydml.core.arguments import is_text
from cython.cimports.anydml.core.arrays import View
from cython.cimports.anydml.core.moving import inside
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy

from anydml.strides import each_once

MOST_INDICES = cython.declare(int64_t, 1 << 60)
"""As many INT64 numbers have more bytes than addresses have."""


def as_indices(given):
    """An array of indices: lists become one, integers of other sizes INT64."""
    if type(given) is not np.ndarray:
        # Other libraries' arrays are as they are.
        if not isinstance(given, (list, tuple, int)) or isinstance(given, bool):
            return given
        try:
            given = np.asarray(given)
        except (TypeError, ValueError):
            return given
        if given.dtype.kind == "f" and not given.size:
            # An empty list.
            return given.astype(np.int64)
    dtype = given.dtype
    if dtype.kind in "iu" and (dtype.itemsize < 4 or not dtype.isnative) and given.size < MOST_INDICES:
        wide = np.int64 if dtype.itemsize < 4 else dtype.newbyteorder("=")
        return np.broadcast_to(each_once(given).astype(wide), given.shape)
    return given


def is_inside(at, type, size):
    """Whether an index lies on an axis of a size, counted from either end."""
    i: int64_t
    k: int32_t
    if abs(type) == 8:
        memcpy(cython.address(i), at, 8)
        return -size <= i < size if type < 0 else 0 <= i < size
    memcpy(cython.address(k), at, 4)
    return -size <= k < size if type < 0 else cython.cast(uint32_t, k) < size


def are_row_inside(at, type, step, n, size):
    """Whether n indices, `step` bytes apart, lie on an axis of a size, counted from either end."""
    i: int64_t
    if step == abs(type):
        return inside(at, type, n, size)
    for i in range(n):
        if not is_inside(at + i * step, type, size):
            return False
    return True


def are_inside(v, type, size):
    """Whether all indices lie on an axis of a size, counted from either end. Strides of 0 lead to no others."""
    c: int64_t[64]
    d: cython.int
    at: cython.p_char = v.data
    last: cython.int = v.rank - 1
    for d in range(v.rank):
        c[d] = 0
        if v.n[d] == 0:
            return True
    if last < 0:
        return is_inside(at, type, size)
    while True:
        if not are_row_inside(at, type, v.s[last], v.n[last] if v.s[last] else 1, size):
            return False
        d = last - 1
        while d >= 0:
            if not v.s[d]:
                d -= 1
                continue
            at += v.s[d]
            c[d] += 1
            if c[d] < v.n[d]:
                break
            at -= v.s[d] * v.n[d]
            c[d] = 0
            d -= 1
        if d < 0:
            return True


def are_coordinates_inside(v, type, sizes):
    """Whether all coordinates, which the last dimension holds, lie on axes of these sizes."""
    w: View = v[0]
    k: int64_t
    w.rank -= 1
    for k in range(v.n[w.rank]):
        w.data = v.data + k * v.s[w.rank]
        if not are_inside(cython.address(w), type, sizes[k]):
            return False
    return True


def place(at, type, size, offset):
    """An index as a number from 0 to size − 1: counted from the end where it is negative, then clamped."""
    i: int64_t
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


def are_accepted(word, other, v, type, sizes, are_coordinates):
    """Whether indices need no refusal: all are inside, or the word for those outside is the other one.

    Args:
        word: what a call says of indices outside: ``"error"`` or the other word; all else is left to Python.
        other: ``"clamp"`` or ``"skip"``.
        v: the indices.
        type: theirs, as lookups have it.
        sizes: of the axis, or of all axes of coordinates.
        are_coordinates: whether the last dimension has an index for each axis.
    """
    if not is_text(word):
        return False
    if word != "error":
        return word == other
    return are_coordinates_inside(v, type, sizes) if are_coordinates else are_inside(v, type, sizes[0])
