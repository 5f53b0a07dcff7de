"""Search for nonzero elements in two passes: count them, then write their coordinates or items."""

import cython
import numpy as np
from cython.cimports.anydml.core.arguments import read_int
from cython.cimports.anydml.core.arrays import (
    Kind,
    View,
    element_count,
    new_result,
    numpy_dtype,
    read_array,
    read_mask,
)
from cython.cimports.anydml.core.memory import new_array
from cython.cimports.anydml.core.moving import run_plan
from cython.cimports.anydml.core.signatures import is_packed
from cython.cimports.anydml.core.tensors import Library, library_of
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.numpy import PyArray_BYTES, import_array, ndarray, npy_intp

from anydml.core.rules import gather

import_array()

INT64 = np.dtype(np.int64)

ALL_BITS = (1 << 64) - 1

_SIGNS = {"e": 1 << 15, "f": 1 << 31, "d": 1 << 63, "F": 1 << 63 | 1 << 31}

MASKS = {np.dtype(code): ALL_BITS & ~_SIGNS.get(code, 0) for code in "?bBhHiIlLqQefdF"}
"""The bits that make an element nonzero, by dtype: all but the signs of floats."""

FIND_EFFORT = cython.declare(int64_t, 6)
"""Effort of testing one element, in bytes that a plain copy writes in the same time."""


def nonzero(x, dtype=INT64):
    """Return the coordinates of nonzero elements, one row each, in row-major order; None to fall back to Python.

    Args:
        x: array of any library.
        dtype: dtype of the coordinates, of 4 or 8 bytes.
    """
    search: Search
    kind: Kind
    v: View
    shape: int64_t[2]
    if read_array(x, cython.address(v), cython.address(kind)):
        return None
    if not v.rank or not is_packed(cython.address(v), 0, kind.element):
        return None
    mask = MASKS.get(numpy_dtype(cython.address(kind)))
    if mask is None:
        return None
    search.elements, search.rank, search.sizes = v.data, v.rank, v.sizes
    search.element_count = element_count(v.rank, v.sizes)
    search.element_size, search.mask = kind.element, mask
    _memory = count_found(cython.address(search))
    shape[0], shape[1] = search.found_before[search.block_count], search.rank
    rows = find_coordinates(cython.address(search), 2, shape, dtype)
    library: Library = library_of(x)
    return rows if library is None else library.from_lengths(rows)


def find_coordinates(search, rank, shape, dtype):
    """Return the coordinates of elements that were counted, in a new array."""
    search.output_size = dtype.itemsize
    rows: ndarray = new_array(rank, cython.cast(cython.pointer(npy_intp), shape), dtype)
    search.output = PyArray_BYTES(rows)
    write_found(search, anydml_coordinates)
    return rows


def compress(condition, x, axis):
    """Return the items of an array for which a condition holds; None to fall back to Python.

    The condition has the dimensions of the array from the axis on, by default all; an item has the others.
    """
    search: Search
    kind: Kind
    view: View
    mask: View
    shape: int64_t[64]
    merged_sizes: int64_t[64]
    merged_strides: int64_t[64]
    first_axis: int64_t = 0
    if read_array(x, cython.address(view), cython.address(kind)) or read_mask(
        condition, cython.address(kind), cython.address(mask)
    ):
        return None
    if not view.rank or not 0 < mask.rank <= view.rank or not is_packed(cython.address(mask), 0, 1):
        return None
    if axis is None and mask.rank < view.rank:
        return None
    if axis is not None and read_int(axis, cython.address(first_axis)):
        return None
    first_axis += view.rank if first_axis < 0 else 0
    if not 0 <= first_axis < view.rank or (first_axis and mask.rank > 1):
        return None
    for d in range(mask.rank):
        if mask.sizes[d] != view.sizes[first_axis + d]:
            return None
    search.elements = mask.data
    search.element_count = element_count(mask.rank, mask.sizes)
    search.element_size = 1
    search.mask = 255
    _memory = count_found(cython.address(search))
    shape[0] = search.found_before[search.block_count]
    if first_axis or not is_packed(cython.address(view), mask.rank, kind.element):
        # Slices that are not contiguous are picked by index.
        if mask.rank > 1:
            return None
        search.rank = 1
        search.sizes = mask.sizes
        return gather(x, find_coordinates(cython.address(search), 1, shape, INT64), first_axis, "clamp", None)
    search.sizes = merged_sizes
    search.item_strides = merged_strides
    search.items = view.data
    search.output_size = kind.element
    for d in range(mask.rank, view.rank):
        search.output_size *= view.sizes[d]
        shape[d - mask.rank + 1] = view.sizes[d]
    search.rank = 0
    for d in range(mask.rank):
        if search.rank and view.strides[d - 1] == view.sizes[d] * view.strides[d]:
            merged_sizes[search.rank - 1] *= view.sizes[d]
            merged_strides[search.rank - 1] = view.strides[d]
        else:
            merged_sizes[search.rank] = view.sizes[d]
            merged_strides[search.rank] = view.strides[d]
            search.rank += 1
    try:
        result = new_result(cython.address(kind), view.rank - mask.rank + 1, shape, cython.address(view))
    except (MemoryError, ValueError):
        return None
    if result is not None and search.output_size:
        search.output = view.data
        write_found(cython.address(search), anydml_items)
    return result


def count_found(search):
    """Count the elements found, block by block; returns the memory of `search.found_before`."""
    total: int64_t = 0
    search.block_count = (search.element_count + ANYDML_SEARCH_BLOCK - 1) // ANYDML_SEARCH_BLOCK
    memory = PyBytes_FromStringAndSize(cython.NULL, (search.block_count + 1) * 8)
    search.found_before = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(memory))
    run_plan(anydml_count, search, search.block_count, search.element_count * search.element_size)
    for k in range(search.block_count):
        in_block = search.found_before[k]
        search.found_before[k] = total
        total += in_block
    search.found_before[search.block_count] = total
    return memory


def write_found(search, work):
    """Write a row for each element found."""
    count = search.found_before[search.block_count]
    if count:
        run_plan(work, search, search.block_count, search.element_count * FIND_EFFORT + count * search.output_size)
