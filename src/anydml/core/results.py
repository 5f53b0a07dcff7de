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


def runs_again(make):
    """Whether to run a rule of several results once more: with `out`, a first run only checks all arrays of `out`."""
    make.runs += 1
    if make.out == cython.NULL:
        return make.runs == 1
    outputs: cython.Py_ssize_t = len(cython.cast(list, make.out))
    make.is_trial = make.runs == 1
    if make.is_trial:
        # A range has an address for each of its ends.
        make.written = cython.cast(cython.pointer(Range), room(make, 2 * outputs))
    elif make.runs == 2 and (make.count != outputs or not are_all_disjoint(make.written, outputs)):
        raise REFUSED
    make.count = 0
    return make.runs < 3


def end_call(make, done):
    """Run the pending moves and return the results; None to fall back to Python, if not `done` or after an error.

    Raises:
        KeyboardInterrupt: or another exception that a signal handler raised while moves ran.
    """
    result: object = None
    if make.parts != cython.NULL:
        result = cython.cast(object, make.parts)
    elif make.only_result != cython.NULL:
        result = cython.cast(object, make.only_result)
        Py_DECREF(result)
    if done > 0:
        if make.call.has_out:
            notify_written(result, make.call.kind)
        finish_moves(make.call)
        done = not (make.call.is_unfit or make.call.refused)
    while make.blocks != cython.NULL:
        block_before = cython.cast(cython.pointer(int64_t), make.blocks[0])
        free(make.blocks)
        make.blocks = block_before
    if make.call.count < 0:
        raise_pending()
    if done < 0:
        PyErr_Clear()
    return result if done > 0 else None


def result(make, sizes, write_sizes):
    """Return the place of the next result, in `write_sizes` if not NULL; the previous place becomes invalid."""
    if sizes.count > RANK:
        raise REFUSED
    _begin_result(make, sizes.count, sizes.at)
    to: cython.pointer(View) = make.call.to
    view = cython.cast(cython.pointer(Box), room(make, cython.sizeof(Box) // 8))
    view.data, view.rank, view.lookups = to.data, to.rank, 0
    view.sizes = cython.cast(cython.pointer(int64_t), to.sizes)
    view.strides = cython.cast(cython.pointer(int64_t), to.strides)
    return view if write_sizes == cython.NULL else split(make, flat(make, view), 0, write_sizes)


def result_from(make, x):
    """Return the next result with x's elements: the first array itself if it is `out` and may be updated, or a copy."""
    c: cython.pointer(Call) = make.call
    c.is_in_place = make.may_update and make.out == make.first
    to = result(make, sizes(make, x), cython.NULL)
    if not c.is_in_place:
        copy(make, to, x)
    return to


def _begin_result(make, rank, n):
    """Make or read the next result, which the call then writes to."""
    c: cython.pointer(Call) = make.call
    if make.out == cython.NULL:
        result = new_result(c.kind, rank, n, c.to)
    elif make.parts != cython.NULL:
        result = _next_output(make, rank, n)
    else:
        result = cython.cast(object, make.out)
        if read_output(result, c.kind, rank, n, c.to) or not _overlaps_no_input(make):
            raise REFUSED
    if result is None:
        raise REFUSED
    if make.parts == cython.NULL:
        Py_INCREF(result)
        make.only_result = cython.cast(cython.pointer(PyObject), result)
    elif not make.is_trial:
        cython.cast(list, make.parts).append(result)
    return 0


def _overlaps_no_input(make):
    """Whether `out` overlaps no input, except perhaps a first input that the call updates in place."""
    c: cython.pointer(Call) = make.call
    element: int64_t = c.kind.element
    written: Range = array_range(c.to, element)
    if not (c.is_in_place or are_disjoint(written, array_range(c.x, element))):
        return False
    input_view: View
    for k in range(1, make.inputs.count):
        x = make.inputs.at[k]
        input_view.data, input_view.rank, input_view.sizes, input_view.strides = x.data, x.rank, x.sizes, x.strides
        size: int64_t = element if x.type == 0 else abs(x.type)
        if not are_disjoint(written, array_range(cython.address(input_view), size)):
            return False
    return True


def _next_output(make, rank, n):
    """Read the next array of `out`; None if the array does not fit the result."""
    c: cython.pointer(Call) = make.call
    outputs: list = cython.cast(list, make.out)
    if make.count >= len(outputs):
        return None
    output = outputs[make.count]
    if read_output(output, c.kind, rank, n, c.to):
        return None
    if not make.is_trial:
        notify_written(output, c.kind)
    elif not is_disjoint(c.to, c.kind.element, c.x, c.kind.element):
        return None
    else:
        make.written[make.count] = array_range(c.to, c.kind.element)
    make.count += 1
    return output


def store(make, x):
    """Copy a view to the next result."""
    return copy(make, result(make, sizes(make, x), cython.NULL), x)


def fill(make, to, value):
    """Write an element to all of a place; zeros if the element is NULL."""
    c: cython.pointer(Call) = make.call
    if make.is_trial:
        return 0
    if to.lookups or to.rank > MAX_AXES:
        raise REFUSED
    if value == cython.NULL:
        if make.zeros == cython.NULL:
            make.zeros = cython.cast(cython.p_char, room(make, c.kind.element // 8 + 1))
            memset(make.zeros, 0, c.kind.element)
        value = make.zeros
    c.pattern = value
    return add_fill(c, to.data, to.rank, to.sizes, to.strides)


def count_up(make, to, start, delta):
    """Write ``start + k · delta`` to a packed place in row-major order."""
    c: cython.pointer(Call) = make.call
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
