"""Conversion of arguments to index arrays, and clamping of single indices."""

import cython
import numpy as np
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t

from anydml.strides import in_words

MOST_INDICES = cython.declare(int64_t, 1 << 60)
"""This many INT64 numbers would exceed the address space."""


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
