"""Functions that split an array along an axis, and that join several."""

import cython
import numpy as np
from cython.cimports.anydml.core.arguments import read_axis, read_int, read_single_int
from cython.cimports.anydml.core.arrays import (
    RANK,
    View,
    array_range,
    is_disjoint,
    new_result,
    notify_written,
    read_output,
    read_same_kind,
)
from cython.cimports.anydml.core.calls import add_move, begin, finish, make_result
from cython.cimports.anydml.core.ranges import Range, are_all_disjoint
from cython.cimports.anydml.core.tensors import Library, library_of
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize

MOST_ITEMS = cython.declare(int64_t, 1 << 24)
"""Maximum number of parts."""

MOST = cython.declare(int64_t, (1 << 63) - 1)
"""Maximum number of elements along an axis."""


def held(given):
    """The items of a list or tuple, which the call keeps alive from here on; None for anything else.

    Whoever changes a list while memory is allocated, as a finalizer may, changes no list that is read. `tuple` would
    read the list that it was given.
    """
    return [*given] if isinstance(given, (list, tuple)) else None


def check_outputs(c, axis, count, equal, sizes, out):
    """Check that the caller's arrays fit the parts and do not overlap; returns 1 to fall back to Python."""
    element: int64_t = c.kind.element
    if len(out) != count:
        return 1
    memory = PyBytes_FromStringAndSize(cython.NULL, count * cython.sizeof(Range))
    ranges: cython.pointer(Range) = cython.cast(cython.pointer(Range), PyBytes_AS_STRING(memory))
    for i in range(count):
        c.n[axis] = part_size(equal, sizes, i)
        if read_output(out[i], c.kind, c.x.rank, c.n, c.to) or not is_disjoint(c.to, element, c.x, element):
            return 1
        ranges[i] = array_range(c.to, element)
    return not are_all_disjoint(ranges, count)


def part_size(equal, sizes, i):
    """The size of part i: `equal`, or sizes[i], already checked, if that is negative."""
    size: int64_t = equal
    if equal < 0:
        read_int(sizes[i], cython.address(size))
    return size


def split_axis(c, axis, count, equal, sizes, out, parts):
    """Split an axis into `count` parts of `equal` elements or, if that is negative, of `sizes`, which add up to it.

    The parts are `out`, if that is not None, and appended to the list `parts`.
    """
    for i in range(c.x.rank):
        c.n[i] = c.x.n[i]
    if out is not None and check_outputs(c, axis, count, equal, sizes, out):
        return None
    source: cython.p_char = c.x.data
    for i in range(count):
        c.n[axis] = part_size(equal, sizes, i)
        if out is None:
            part = new_result(c.kind, c.x.rank, c.n, c.to)
            if part is None:
                return None
        else:
            part = out[i]
            read_same_kind(part, c.to, c.kind)
            notify_written(part, c.kind)
        parts.append(part)
        add_move(c, c.to.data, source, c.x.rank, c.n, c.to.s, c.x.s)
        source += c.n[axis] * c.x.s[axis]
    return finish(c, parts)


def split(x, sizes_or_sections, axis, out):
    """Split by the number of parts or their sizes."""
    c: Call[1]
    count: int64_t
    size: int64_t
    total: int64_t = 0
    # Objects are made before x is read: the garbage collector runs whatever finalizers there are.
    parts: list = []
    sizes: list = held(sizes_or_sections)
    outputs: list = held(out)
    if outputs is None and out is not None:
        return None
    if begin(c, x) or (along := read_axis(axis, c.x.rank)) < 0:
        return None
    if not read_single_int(sizes_or_sections, cython.address(count)):
        if count < 1 or count > MOST_ITEMS or c.x.n[along] % count:
            return None
        return split_axis(c, along, count, c.x.n[along] // count, sizes, outputs, parts)
    if sizes is None:
        return None
    for each in sizes:
        if read_int(each, cython.address(size)) or size < 0 or size > c.x.n[along] - total:
            return None
        total += size
    if not sizes or total != c.x.n[along]:
        return None
    return split_axis(c, along, len(sizes), -1, sizes, outputs, parts)


def split_training(x, split_sizes, axis, num_outputs, out):
    """Split by sizes that are data."""
    if type(split_sizes) is np.ndarray:
        if split_sizes.ndim != 1 or split_sizes.dtype.kind not in "iu" or split_sizes.size > MOST_ITEMS:
            return None
        split_sizes = split_sizes.tolist()
    if type(split_sizes) is not list and type(split_sizes) is not tuple:
        return None
    for each in split_sizes:
        # NumPy converts bools to arrays of bools, which are not sizes.
        if isinstance(each, bool):
            return None
    if num_outputs is None:
        return split(x, split_sizes, axis, out) if len(split_sizes) else None
    if not isinstance(num_outputs, int):
        return None
    if not len(split_sizes):
        return split(x, num_outputs, axis, out)
    return split(x, split_sizes, axis, out) if num_outputs == len(split_sizes) else None


def join_along(arrays, axis, out, is_new, lengths):
    """Join arrays along an axis, which is new if `is_new`; their lengths along it are appended to `lengths`."""
    c: Call[1]
    w: View[1]
    given: list = held(arrays)
    if not given:
        return None
    count: cython.int = len(given)
    if begin(c, given[0]):
        return None
    rank: cython.int = c.x.rank + is_new
    if rank > RANK or (along := read_axis(axis, rank)) < 0:
        return None
    memory = PyBytes_FromStringAndSize(cython.NULL, count * cython.sizeof(Part))
    part: cython.pointer(Part) = cython.cast(cython.pointer(Part), PyBytes_AS_STRING(memory))
    total: int64_t = 0
    for i in range(count):
        seen: cython.pointer(View) = c.x
        if i:
            seen = w
            if read_same_kind(given[i], w, c.kind) or w.rank != c.x.rank:
                return None
        for d in range(c.x.rank):
            if seen.n[d] != c.x.n[d] and (is_new or d != along):
                return None
        part[i].data = seen.data
        part[i].length = 1 if is_new else seen.n[along]
        part[i].s = seen.element_strides if seen.s == seen.storage else seen.s
        part[i].unit = c.kind.element if seen.s == seen.storage else 1
        # Broadcast arrays may have more elements in total than 64 bits can count.
        if part[i].length > MOST - total:
            return None
        total += part[i].length
    for d in range(rank):
        c.n[d] = total if d == along else c.x.n[d - (is_new and d > along)]
    found = make_result(c, out, rank, c.n)
    for i in range(1, 0 if out is None else count):
        read_same_kind(given[i], w, c.kind)
        c.is_unfit |= not is_disjoint(c.to, c.kind.element, w, c.kind.element)
    for d in range(c.x.rank):
        c.n[d] = c.x.n[d]
        c.a[d] = c.to.s[d + (is_new and d >= along)]
    at: cython.p_char = c.to.data
    for i in range(count):
        if not is_new:
            c.n[along] = part[i].length
        if lengths is not None:
            lengths.append(part[i].length)
        for d in range(c.x.rank):
            c.b[d] = part[i].s[d] * part[i].unit
        add_move(c, at, part[i].data, c.x.rank, c.n, c.a, c.b)
        at += c.to.s[along] * part[i].length
    return finish(c, found)


def join(arrays, axis, out):
    """Join arrays along one of their axes."""
    return join_along(arrays, axis, out, False, None)


def stack(arrays, axis, out):
    """Join arrays of one shape along a new axis."""
    return join_along(arrays, axis, out, True, None)


def concat_training(arrays, axis, out):
    """Return the result of `join` and the arrays' lengths."""
    lengths: list = []
    found = join_along(arrays, axis, out, False, lengths)
    if found is None:
        return None
    library: Library = library_of(found)
    made = np.array(lengths, np.int64)
    return found, made if library is None else library.from_lengths(made)
