"""The verbs of operators' rules, compiled: views of arrays as plain numbers, and results that are written at once.

They mean what those of `anydml.moves.verbs` mean, in the same order of arguments. What does not fit, such as an `out`
of other strides, raises REFUSED, and Python does the call.
"""

import cython
from cython.cimports.anydml.core.arrays import (
    RANK,
    View,
    array_range,
    is_disjoint,
    new_result,
    notify_written,
    read_output,
)
from cython.cimports.anydml.core.calls import Call, add_move, finish, make_result
from cython.cimports.anydml.core.moving import offset_by
from cython.cimports.anydml.core.ranges import Range, are_all_disjoint, are_disjoint
from cython.cimports.cpython.exc import PyErr_Clear
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.libc.stdlib import free, malloc


class RefusedError(Exception):
    """The call is left to Python."""


REFUSED = RefusedError()

BLOCK = cython.declare(int64_t, 8192)
"""Least numbers of a block of memory that a call gets when its own is full."""


def held(given):
    """The items of a list or tuple, which the call keeps alive from here on; None for anything else.

    Whoever changes a list while memory is allocated, as a finalizer may, changes no list that is read. `tuple` would
    read the list that it was given.
    """
    return [*given] if isinstance(given, (list, tuple)) else None


def again(make):
    """Whether to run a rule of several results once more: arrays of `out` are all looked at before one is written."""
    make.runs += 1
    if make.out == cython.NULL:
        return make.runs == 1
    given: cython.Py_ssize_t = len(cython.cast(list, make.out))
    make.is_trial = make.runs == 1
    if make.is_trial:
        # A range has an address for each of its ends.
        make.written = cython.cast(cython.pointer(Range), room(make, 2 * given))
    elif make.runs == 2 and (make.count != given or not are_all_disjoint(make.written, given)):
        raise REFUSED
    make.count = 0
    return make.runs < 3


def end_call(make, done):
    """Run the pending moves and return the results; None to fall back to Python, if not `done` or after an error."""
    if done < 0:
        PyErr_Clear()
    while make.blocks != cython.NULL:
        before = cython.cast(cython.pointer(int64_t), make.blocks[0])
        free(make.blocks)
        make.blocks = before
    found: object = None
    if make.parts != cython.NULL:
        found = cython.cast(object, make.parts)
    elif make.made != cython.NULL:
        found = cython.cast(object, make.made)
        Py_DECREF(found)
    return finish(make.call, found) if done > 0 else None


def _more_room(make, count):
    """Begin another block of memory (see `room`)."""
    size = max(count, BLOCK)
    block = cython.cast(cython.pointer(int64_t), malloc((size + 1) * cython.sizeof(int64_t)))
    if block == cython.NULL:
        raise MemoryError
    block[0] = cython.cast(int64_t, make.blocks)
    make.blocks = block
    make.next = block + 1 + count
    make.left = size - count
    return block + 1


def repeated(make, value, count):
    """The same number several times."""
    found = numbers(make, count)
    for k in range(count):
        found.at[k] = value
    return found


def append_to(counts, numbers):
    """Append numbers to a list."""
    for k in range(numbers.count):
        counts.append(numbers.at[k])
    return 0


def cut(make, x, axis, start, size, step):
    """Element i along the axis is ``x[start + step · i]``."""
    y = _box(make, x, x.rank)
    for d in range(x.rank):
        y.n[d], y.s[d] = x.n[d], x.s[d]
    y.data = offset_by(x.data, start * x.s[axis])
    y.n[axis] = size
    # A stride that is never taken may be beyond 64 bits.
    y.s[axis] = step * x.s[axis] if size > 1 else 0
    return y


def window(make, x, first, count, step):
    """A cut of every axis."""
    y = _box(make, x, x.rank)
    for d in range(x.rank):
        y.data = offset_by(y.data, first.at[d] * x.s[d])
        y.n[d] = count.at[d]
        y.s[d] = step.at[d] * x.s[d] if count.at[d] > 1 else 0
    return y


def at(make, x, axis, k):
    """The elements whose coordinate along the axis is k, without the axis."""
    y = _box(make, x, x.rank - 1)
    y.data = offset_by(x.data, k * x.s[axis])
    for d in range(y.rank):
        own = d + (d >= axis)
        y.n[d], y.s[d] = x.n[own], x.s[own]
    return y


def permute(make, x, axes):
    """Axis k is x's ``axes[k]``."""
    y = _box(make, x, x.rank)
    for d in range(x.rank):
        own = axes.at[d]
        y.n[d], y.s[d] = x.n[own], x.s[own]
    return y


def split(make, x, axis, sizes):
    """One axis as several, in row-major order."""
    more = sizes.count - 1
    y = _box(make, x, x.rank + more)
    for d in range(axis):
        y.n[d], y.s[d] = x.n[d], x.s[d]
    for d in range(axis + 1, x.rank):
        y.n[d + more], y.s[d + more] = x.n[d], x.s[d]
    stride = x.s[axis]
    for k in range(more, -1, -1):
        y.n[axis + k], y.s[axis + k] = sizes.at[k], stride
        stride *= sizes.at[k]
    return y


def broadcast(make, x, sizes):
    """NumPy's broadcasting: axes are prepended, and those of size 1 repeated."""
    y = _box(make, x, sizes.count)
    more = sizes.count - x.rank
    for d in range(y.rank):
        y.n[d] = sizes.at[d]
        y.s[d] = x.s[d - more] if d >= more and x.n[d - more] == sizes.at[d] else 0
    return y


def count(make, x):
    """The number of x's elements. Those of all inputs together fit 62 bits."""
    found: int64_t = 1
    for d in range(x.rank):
        if x.n[d] and found > (cython.cast(int64_t, 1) << 62) // make.inputs.count // x.n[d]:
            raise REFUSED
        found *= x.n[d]
    return found


def ints(make, a):
    """Sizes of a rule's own."""
    return repeated(make, a, 1)


def resized(make, x, axis, size):
    """X's sizes with another one along an axis."""
    found = numbers(make, x.rank)
    for d in range(x.rank):
        found.at[d] = size if d == axis else x.n[d]
    return found


def inserted(make, x, axis, size):
    """X's sizes with one more before an axis."""
    found = numbers(make, x.rank + 1)
    for d in range(found.count):
        found.at[d] = size if d == axis else x.n[d - (d > axis)]
    return found


def result(make, sizes):
    """The place of the next result; the one before is a place no more."""
    if sizes.count > RANK:
        raise REFUSED
    _begin_result(make, sizes.count, sizes.at)
    to: cython.pointer(View) = make.call.to
    place = cython.cast(cython.pointer(Box), room(make, cython.sizeof(Box) // 8))
    place.data, place.rank = to.data, to.rank
    place.n = cython.cast(cython.pointer(int64_t), to.n)
    place.s = cython.cast(cython.pointer(int64_t), to.s)
    return place


def _begin_result(make, rank, n):
    """Make or read the next result, which the call then writes to."""
    c: cython.pointer(Call) = make.call
    if make.parts == cython.NULL:
        found = make_result(c, None if make.out == cython.NULL else cython.cast(object, make.out), rank, n)
        if found is None:
            raise REFUSED
        Py_INCREF(found)
        make.made = cython.cast(cython.pointer(PyObject), found)
        return _check_apart(make) if c.has_out else 0
    found = new_result(c.kind, rank, n, c.to) if make.out == cython.NULL else _next_output(make, rank, n)
    if found is None:
        raise REFUSED
    if not make.is_trial:
        cython.cast(list, make.parts).append(found)
    return 0


def _check_apart(make):
    """Check that `out` overlaps none of several inputs."""
    element: int64_t = make.call.kind.element
    written: Range = array_range(make.call.to, element)
    other: View
    for k in range(1, make.inputs.count):
        x = make.inputs.at[k]
        other.data, other.rank, other.n, other.s = x.data, x.rank, x.n, x.s
        if not are_disjoint(written, array_range(cython.address(other), element)):
            raise REFUSED
    return 0


def _next_output(make, rank, n):
    """Read the next array of `out`; None if it does not fit."""
    c: cython.pointer(Call) = make.call
    outputs: list = cython.cast(list, make.out)
    if make.count >= len(outputs):
        return None
    found = outputs[make.count]
    if read_output(found, c.kind, rank, n, c.to):
        return None
    if not make.is_trial:
        notify_written(found, c.kind)
    elif not is_disjoint(c.to, c.kind.element, c.x, c.kind.element):
        return None
    else:
        make.written[make.count] = array_range(c.to, c.kind.element)
    make.count += 1
    return found


def copy(make, to, x):
    """Write a view to a place of the same sizes."""
    if make.is_trial:
        return 0
    return add_move(make.call, to.data, x.data, to.rank, x.n, to.s, x.s)


def store(make, x):
    """The next result is a view."""
    _begin_result(make, x.rank, x.n)
    c: cython.pointer(Call) = make.call
    return 0 if make.is_trial else add_move(c, c.to.data, x.data, x.rank, x.n, c.to.s, x.s)
