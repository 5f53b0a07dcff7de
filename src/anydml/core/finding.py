"""Where elements are not zero: how many there are of them is known once all were looked at."""

import cython
from cython.cimports.anydml.core.memory import new_array
from cython.cimports.anydml.core.moving import HELD_EFFORT, SHARED_EFFORT
from cython.cimports.anydml.core.pool import share
from cython.cimports.cpython.mem import PyMem_Free, PyMem_Malloc
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.numpy import (
    PyArray_BYTES,
    PyArray_DIMS,
    PyArray_ITEMSIZE,
    PyArray_NDIM,
    PyArray_SIZE,
    dtype,
    import_array,
    ndarray,
    npy_intp,
)

import_array()

CLAIM = cython.declare(int64_t, 16)
"""Pieces that a thread takes at a time."""


def coordinates(x: ndarray, kept: uint64_t, kind: dtype):
    """The coordinates of elements that are not zero, a row each, in row-major order.

    Args:
        x: contiguous, of one dimension at least, with elements of 1, 2, 4 or 8 bytes.
        kept: the bits of an element that count.
        kind: of the coordinates, which has 4 or 8 bytes.
    """
    search: Search
    k: int64_t
    found: int64_t
    total: int64_t = 0
    pieces: int64_t = (PyArray_SIZE(x) + ANYDML_PIECE - 1) // ANYDML_PIECE
    shape: npy_intp[2]
    search.source = PyArray_BYTES(x)
    search.total = PyArray_SIZE(x)
    search.size = PyArray_ITEMSIZE(x)
    search.kept = kept
    search.rank = PyArray_NDIM(x)
    search.n = cython.cast(cython.pointer(cython.const[int64_t]), PyArray_DIMS(x))
    search.width = kind.itemsize
    search.rows = cython.cast(cython.pointer(int64_t), PyMem_Malloc((pieces + 1) * 8))
    if search.rows == cython.NULL:
        raise MemoryError
    try:
        look_through(cython.address(search), pieces, anydml_count)
        for k in range(pieces):
            found = search.rows[k]
            search.rows[k] = total
            total += found
        search.rows[pieces] = total
        shape[0] = total
        shape[1] = search.rank
        made: ndarray = new_array(2, shape, kind)
        search.to = PyArray_BYTES(made)
        if total:
            look_through(cython.address(search), pieces, anydml_coordinates)
        return made
    finally:
        PyMem_Free(search.rows)


def look_through(search, pieces, work):
    """Do one of the passes: with every thread that is free, where it is much."""
    effort: int64_t = search.total * search.size
    if effort <= HELD_EFFORT:
        work(search, 0, pieces)
        return 0
    with cython.nogil:
        share(work, search, 0, pieces, CLAIM if effort >= SHARED_EFFORT else pieces, effort)
    return 0
