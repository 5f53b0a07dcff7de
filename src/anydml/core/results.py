"""The verbs of operators' rules that make results, compiled: places of new arrays or of `out`, written at once.

They have the meaning and the arguments of those in `anydml.moves.verbs`. Anything unusual, such as an `out` with other
strides, raises REFUSED, and Python does the call.
"""

import cython
from cython.cimports.anydml.core.arrays import (
    RANK,
    View,
    array_range,
    element_count,
    is_disjoint,
    new_result,
    notify_written,
    numpy_dtype,
    read_output,
)
from cython.cimports.anydml.core.moving import put_numbers, run_plan
from cython.cimports.anydml.core.ranges import Range, are_all_disjoint, are_disjoint
from cython.cimports.anydml.core.signatures import is_packed
from cython.cimports.anydml.core.simplifying import Call, add_fill
from cython.cimports.anydml.core.sizing import sizes
from cython.cimports.anydml.core.verbs import REFUSED, Box, flat, room, split
from cython.cimports.cpython.exc import PyErr_Clear
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset
from cython.cimports.numpy import dtype

NUMBER_EFFORT = cython.declare(int64_t, 4)
"""Effort of a number of a sequence, in bytes that a plain copy writes in the same time, unless it has more bytes."""

MAX_AXES = cython.declare(int64_t, 130)
"""Maximum number of axes of a box that is filled."""


def items_of(arrays):
    """Return a new list with the items of a list or tuple; None for anything else.

    It keeps the items alive. A finalizer that runs during the call may change the caller's list, but not this one.
    """
    return [*arrays] if isinstance(arrays, (list, tuple)) else None


def runs_again(maker):
    """Whether to run a rule of several results once more: with `out`, a first run only checks all arrays of `out`."""
    maker.runs += 1
    if maker.out == cython.NULL:
        return maker.runs == 1
    outputs: cython.Py_ssize_t = len(cython.cast(list, maker.out))
    maker.is_trial = maker.runs == 1
    if maker.is_trial:
        # A range has an address for each of its ends.
        maker.written = cython.cast(cython.pointer(Range), room(maker, 2 * outputs))
    elif maker.runs == 2 and (maker.count != outputs or not are_all_disjoint(maker.written, outputs)):
        raise REFUSED
    maker.count = 0
    return maker.runs < 3


def end_call(maker, done):
    """Run the pending moves and return the results; None to fall back to Python, if not `done` or after an error.

    Raises:
        KeyboardInterrupt: or another exception that a signal handler raised while moves ran.
    """
    result: object = None
    if maker.parts != cython.NULL:
        result = cython.cast(object, maker.parts)
    elif maker.only_result != cython.NULL:
        result = cython.cast(object, maker.only_result)
        Py_DECREF(result)
    if done > 0:
        if maker.call.has_out:
            notify_written(result, maker.call.kind)
        finish_moves(maker.call)
        done = not (maker.call.is_unfit or maker.call.refused)
    while maker.blocks != cython.NULL:
        block_before = cython.cast(cython.pointer(int64_t), maker.blocks[0])
        free(maker.blocks)
        maker.blocks = block_before
    if maker.call.count < 0:
        raise_pending()
    if done < 0:
        PyErr_Clear()
    return result if done > 0 else None


def result(maker, sizes, write_sizes):
    """Return the place of the next result, in `write_sizes` if not NULL; the previous place becomes invalid."""
    if sizes.count > RANK:
        raise REFUSED
    _begin_result(maker, sizes.count, sizes.at)
    to: cython.pointer(View) = maker.call.to
    view = cython.cast(cython.pointer(Box), room(maker, cython.sizeof(Box) // 8))
    view.data, view.rank, view.lookups = to.data, to.rank, 0
    view.sizes = cython.cast(cython.pointer(int64_t), to.sizes)
    view.strides = cython.cast(cython.pointer(int64_t), to.strides)
    return view if write_sizes == cython.NULL else split(maker, flat(maker, view), 0, write_sizes)


def result_from(maker, x):
    """Return the next result with x's elements: the first array itself if it is `out` and may be updated, or a copy."""
    c: cython.pointer(Call) = maker.call
    c.is_in_place = maker.may_update and maker.out == maker.first
    to = result(maker, sizes(maker, x), cython.NULL)
    if not c.is_in_place:
        copy(maker, to, x)
    return to


def _begin_result(maker, rank, n):
    """Make or read the next result, which the call then writes to."""
    c: cython.pointer(Call) = maker.call
    if maker.out == cython.NULL:
        result = new_result(c.kind, rank, n, c.to)
    elif maker.parts != cython.NULL:
        result = _next_output(maker, rank, n)
    else:
        result = cython.cast(object, maker.out)
        if read_output(result, c.kind, rank, n, c.to) or not _overlaps_no_input(maker):
            raise REFUSED
    if result is None:
        raise REFUSED
    if maker.parts == cython.NULL:
        Py_INCREF(result)
        maker.only_result = cython.cast(cython.pointer(PyObject), result)
    elif not maker.is_trial:
        cython.cast(list, maker.parts).append(result)
    return 0


def _overlaps_no_input(maker):
    """Whether `out` overlaps no input, except perhaps a first input that the call updates in place."""
    c: cython.pointer(Call) = maker.call
    element: int64_t = c.kind.element
    written: Range = array_range(c.to, element)
    if not (c.is_in_place or are_disjoint(written, array_range(c.x, element))):
        return False
    input_view: View
    for k in range(1, maker.inputs.count):
        x = maker.inputs.at[k]
        input_view.data, input_view.rank, input_view.sizes, input_view.strides = x.data, x.rank, x.sizes, x.strides
        size: int64_t = element if x.type == 0 else abs(x.type)
        if not are_disjoint(written, array_range(cython.address(input_view), size)):
            return False
    return True


def _next_output(maker, rank, n):
    """Read the next array of `out`; None if the array does not fit the result."""
    c: cython.pointer(Call) = maker.call
    outputs: list = cython.cast(list, maker.out)
    if maker.count >= len(outputs):
        return None
    output = outputs[maker.count]
    if read_output(output, c.kind, rank, n, c.to):
        return None
    if not maker.is_trial:
        notify_written(output, c.kind)
    elif not is_disjoint(c.to, c.kind.element, c.x, c.kind.element):
        return None
    else:
        maker.written[maker.count] = array_range(c.to, c.kind.element)
    maker.count += 1
    return output


def store(maker, x):
    """Copy a view to the next result."""
    return copy(maker, result(maker, sizes(maker, x), cython.NULL), x)


def fill(maker, to, value):
    """Write an element to all of a place; zeros if the element is NULL."""
    c: cython.pointer(Call) = maker.call
    if maker.is_trial:
        return 0
    if to.lookups or to.rank > MAX_AXES:
        raise REFUSED
    if value == cython.NULL:
        if maker.zeros == cython.NULL:
            maker.zeros = cython.cast(cython.p_char, room(maker, c.kind.element // 8 + 1))
            memset(maker.zeros, 0, c.kind.element)
        value = maker.zeros
    c.pattern = value
    return add_fill(c, to.data, to.rank, to.sizes, to.strides)


def count_up(maker, to, start, delta):
    """Write ``start + k · delta`` to a packed place in row-major order."""
    c: cython.pointer(Call) = maker.call
    plan: Plan
    element: cython.int = c.kind.element
    kind: dtype = numpy_dtype(c.kind)
    is_float: cython.bint = kind.kind == ord("f") and (element == 4 or element == 8)
    if kind.byteorder == ord(">") or not (is_float or kind.kind == ord("i") or kind.kind == ord("u")):
        raise REFUSED
    if not is_packed(c.to, 0, element):
        raise REFUSED
    plan.to, plan.start, plan.delta, plan.type = to.data, start, delta, -element if is_float else element
    count = element_count(c.to.rank, c.to.sizes)
    pending = c.count
    c.count = -1
    run_plan(put_numbers, cython.address(plan), count, count * max(element, NUMBER_EFFORT))
    c.count = pending
    return 0
