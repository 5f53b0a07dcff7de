"""Functions that fill: around an array, in its gaps, or in its place."""

import cython
from cython.cimports.anydml.core.arguments import read_int, read_ints
from cython.cimports.anydml.core.arrays import RANK, element_count, numpy_dtype
from cython.cimports.anydml.core.calls import add_fill, add_move, begin, finish, make_result
from cython.cimports.anydml.core.moving import put_numbers, run_plan
from cython.cimports.anydml.core.signatures import is_packed
from cython.cimports.anydml.core.views import read_windows
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.float import PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cython.cimports.cpython.long import PyLong_CheckExact
from cython.cimports.cpython.ref import PyObject
from cython.cimports.libc.string import memset
from cython.cimports.numpy import dtype, import_array

from anydml.core.mirrors import runs

import_array()

NUMBER_EFFORT = cython.declare(int64_t, 4)
"""Effort of a number of a sequence, in bytes that a plain copy writes in the same time, unless it has more bytes."""


def is_small_number(value):
    """Whether a value is a Python number from 0 to 127: it fits every numeric dtype, and packing runs no user code."""
    whole: int64_t
    if PyFloat_CheckExact(value):
        return 0 <= PyFloat_AS_DOUBLE(value) <= 127
    return PyLong_CheckExact(value) and not read_int(value, cython.address(whole)) and 0 <= whole <= 127


def begin_fill(c, x, value):
    """Begin a call on an array and a fill value; returns the element's bytes, which must outlive the call.

    None if the value cannot be converted, the dtype is opaque, or the array is left to Python.
    """
    if begin(c, x):
        return None
    dtype = numpy_dtype(c.kind)
    if dtype is None or is_opaque(cython.cast(cython.pointer(PyObject), dtype)):
        return None
    # A new object: that of `bytes` may be shared.
    found = PyBytes_FromStringAndSize(cython.NULL, c.kind.element)
    c.pattern = PyBytes_AS_STRING(found)
    memset(PyBytes_AS_STRING(found), 0, c.kind.element)
    try:
        pack(cython.cast(cython.pointer(PyObject), dtype), PyBytes_AS_STRING(found), value)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        return None
    # The value's methods may have changed x: read it again.
    return None if not is_small_number(value) and begin(c, x) else found


def begin_zero_fill(c, x):
    """As `begin_fill`, with an element whose bytes are all 0."""
    if begin(c, x):
        return None
    found = bytes(c.kind.element)
    c.pattern = PyBytes_AS_STRING(found)
    return found


def fill(x, value, out):
    """Return an array like x, filled with one value."""
    c: Call[1]
    pattern = begin_fill(c, x, value)
    if pattern is None:
        return None
    found = make_result(c, out, c.x.rank, c.x.n)
    add_fill(c, c.to.data, c.x.rank, c.x.n, c.to.s)
    return finish(c, found)


def sequence(x, start, delta, out):
    """Return an array like x of the numbers ``start + k · delta``, in row-major order."""
    c: Call[1]
    plan: Numbers
    first = begin_fill(c, x, start)
    step = None if first is None else begin_fill(c, x, delta)
    element: cython.int = c.kind.element
    if step is None or len(first) != element:
        return None
    plan.start, plan.delta = PyBytes_AS_STRING(first), PyBytes_AS_STRING(step)
    kind: dtype = numpy_dtype(c.kind)
    is_float: cython.bint = kind.kind == ord("f") and (element == 4 or element == 8)
    if kind.byteorder == ord(">") or not (is_float or kind.kind == ord("i") or kind.kind == ord("u")):
        return None
    plan.type = -element if is_float else element
    found = make_result(c, out, c.x.rank, c.x.n)
    if found is None or not is_packed(c.to, 0, element):
        return None
    plan.to = c.to.data
    count = element_count(c.x.rank, c.x.n)
    run_plan(put_numbers, cython.address(plan), count, count * max(element, NUMBER_EFFORT))
    return finish(c, found)


def fill_around(c, start, n, step):
    """Fill every element of the result outside a box, or in its gaps, once. Without steps, the box has no gaps.

    One dimension after the other, the last one first: the elements before, after and between the box's. In earlier
    dimensions only the box's elements are filled, in later ones all.
    """
    box: int64_t[66]
    a: int64_t[66]
    begin: cython.p_char = c.to.data
    rank: cython.int = c.to.rank
    for d in range(rank):
        begin += start[d] * c.to.s[d]
    for d in range(rank - 1, -1, -1):
        each: int64_t = step[d] if step else 1
        # As many gaps as elements, if there is room, can be written together with these.
        gaps: int64_t = n[d] - (start[d] + n[d] * each > c.to.n[d]) if each > 1 else 0
        last: int64_t = max(start[d] + gaps * each, start[d] + (n[d] - 1) * each + 1)
        begin -= start[d] * c.to.s[d]
        for i in range(rank):
            box[i] = n[i] if i < d else c.to.n[i]
            a[i] = c.to.s[i] * step[i] if i < d and step else c.to.s[i]
        if start[d]:
            box[d] = start[d]
            add_fill(c, begin, rank, box, a)
        if last < c.to.n[d]:
            box[d] = c.to.n[d] - last
            add_fill(c, begin + last * c.to.s[d], rank, box, a)
        if gaps:
            # Gaps are an additional dimension.
            for i in range(rank, d, -1):
                box[i] = c.to.n[i - 1]
                a[i] = c.to.s[i - 1]
            box[d] = gaps
            a[d] = c.to.s[d] * each
            box[d + 1] = each - 1
            a[d + 1] = c.to.s[d]
            add_fill(c, begin + (start[d] + 1) * c.to.s[d], rank + 1, box, a)
    return 0


def add_inside(c, start):
    """Add a copy of x into the result, from a place on."""
    at: cython.p_char = c.to.data
    for d in range(c.to.rank):
        at += start[d] * c.to.s[d]
    return add_move(c, at, c.x.data, c.x.rank, c.x.n, c.to.s, c.x.s)


def add_run(c, d, start, run):
    """Add a copy within dimension d of the result. A run is start, length, source, step, repeats and their period."""
    at: cython.p_char = c.to.data
    rank: cython.int = c.to.rank
    for i in range(rank):
        if i >= d:
            at += start[i] * c.to.s[i]
        c.n[i] = c.to.n[i] if i < d else c.x.n[i]
        c.a[i] = c.b[i] = c.to.s[i]
    c.n[d] = run[1]
    c.b[d] = run[3] * c.to.s[d]
    c.n[rank] = run[4]
    c.a[rank] = run[5] * c.to.s[d]
    c.b[rank] = 0
    return add_move(c, at + run[0] * c.to.s[d], at + run[2] * c.to.s[d], rank + 1, c.n, c.a, c.b)


def extend_by_mode(c, start, mode):
    """Fill the result around x from its inside by a padding mode, one dimension after the other."""
    run: int64_t[6]
    for d in range(c.to.rank):
        n = c.x.n[d]
        for each in runs(mode, n, -start[d], 0) + runs(mode, n, n, c.to.n[d] - start[d]):
            read_ints(each, run, 6)
            add_run(c, d, start, run)
    return 0


def pad(x, pads, mode, value, out):
    """Pad x with a value, its edge, its mirror image, or itself."""
    c: Call[1]
    given: int64_t[128]
    n: int64_t[64]
    if type(mode) is not str:
        return None
    pattern = begin_fill(c, x, value)
    if pattern is None or read_ints(pads, given, 2 * RANK) != 2 * c.x.rank:
        return None
    rank: cython.int = c.x.rank
    is_empty: cython.bint = False
    more: int64_t = 0
    for d in range(rank):
        if not (0 <= given[d] < 1 << 60 and 0 <= given[rank + d] < 1 << 60):
            return None
        n[d] = given[d] + c.x.n[d] + given[rank + d]
        is_empty = is_empty or c.x.n[d] == 0
        more |= given[d] | given[rank + d]
    is_constant: cython.bint = mode == "constant"
    if not is_constant and (is_empty or mode not in ("edge", "reflect", "symmetric", "wrap")):
        return None
    found = make_result(c, out, rank, n)
    if is_empty:
        add_fill(c, c.to.data, rank, n, c.to.s)
        return finish(c, found)
    add_inside(c, given)
    if more and is_constant:
        fill_around(c, given, c.x.n, cython.NULL)
    elif more:
        extend_by_mode(c, given, mode)
    return finish(c, found)


def slice_grad(x, sizes, window_offsets, window_sizes, window_strides, out):
    """Return zeros with x in the window that `slice1` reads."""
    c: Call[1]
    n: int64_t[64]
    at: int64_t[64]
    step: int64_t[64]
    most: int64_t[64]
    zero = begin_zero_fill(c, x)
    if zero is None or read_ints(sizes, n, RANK) != c.x.rank:
        return None
    rank: cython.int = c.x.rank
    if read_windows(rank, n, window_offsets, window_sizes, window_strides, at, step, most):
        return None
    for d in range(rank):
        if not 0 < c.x.n[d] <= most[d]:
            return None
    found = make_result(c, out, rank, n)
    inner: cython.p_char = c.to.data
    for d in range(rank):
        inner += at[d] * c.to.s[d]
        c.a[d] = step[d] * c.to.s[d] if c.x.n[d] > 1 else 0
        if step[d] < 0:
            at[d] += step[d] * (c.x.n[d] - 1)
            step[d] = -step[d]
        if c.x.n[d] == 1:
            step[d] = 1
    add_move(c, inner, c.x.data, rank, c.x.n, c.a, c.x.s)
    fill_around(c, at, c.x.n, step)
    return finish(c, found)
