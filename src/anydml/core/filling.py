# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The functions whose results have elements that are known: around an array, in its gaps, or in its place.

Each gives None for what Python has to do, or refuse.
"""

import cython
from cython.cimports.anydml.core.arrays import RANK, Kind, View, number, numbers, packing, read
from cython.cimports.anydml.core.batch import Batch, add, add_fill, begin, run_all
from cython.cimports.anydml.core.indices import is_text
from cython.cimports.anydml.core.views import result
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.float import PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cython.cimports.cpython.long import PyLong_CheckExact
from cython.cimports.cpython.ref import PyObject
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memset
from cython.cimports.numpy import import_array

from anydml.core.mirrors import runs

import_array()


def is_plain(value):
    """Whether a value is a number of Python's own that every dtype of numbers holds: nothing else runs to pack it."""
    whole: int64_t
    if PyFloat_CheckExact(value):
        return 0 <= PyFloat_AS_DOUBLE(value) <= 127
    return PyLong_CheckExact(value) and not number(value, cython.address(whole)) and 0 <= whole <= 127


def pattern_of(k, value):
    """The bytes of an element with this value; None where there is none, or NumPy's rules for it are not enough."""
    dtype = packing(k)
    if dtype is None or is_opaque(cython.cast(cython.pointer(PyObject), dtype)):
        return None
    # Bytes that nobody else has: those of `bytes` may be shared.
    found = PyBytes_FromStringAndSize(cython.NULL, k.element)
    memset(PyBytes_AS_STRING(found), 0, k.element)
    try:
        pack(cython.cast(cython.pointer(PyObject), dtype), PyBytes_AS_STRING(found), value)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        return None
    return found


def fill(x, value, out):
    """An array like x, of one value."""
    v: View
    to: View
    k: Kind
    batch: Batch
    if read(x, cython.address(v), cython.address(k)):
        return None
    pattern = pattern_of(cython.address(k), value)
    # A value's own methods may have changed x.
    if pattern is None or (not is_plain(value) and read(x, cython.address(v), cython.address(k))):
        return None
    found = result(cython.address(k), cython.address(v), out, v.rank, v.n, cython.address(to))
    if found is None:
        return None
    begin(cython.address(batch))
    at: cython.p_char = PyBytes_AS_STRING(pattern)
    if add_fill(cython.address(batch), to.data, at, k.element, k.element, v.rank, v.n, to.s):
        return None
    run_all(cython.address(batch))
    return found


def surround(batch, to, element, start, n, step, pattern):
    """Every element outside a box, or in its gaps, once; returns as `add`.

    What lies before, behind and between, in one dimension after the other: those before it have the box's sizes, those
    after it are whole.
    """
    box: int64_t[66]
    a: int64_t[66]
    d: cython.int
    i: cython.int
    begin_at: cython.p_char = to.data
    for d in range(to.rank):
        last: int64_t = start[d] + (n[d] - 1) * step[d] + 1
        for i in range(to.rank):
            box[i] = n[i] if i < d else to.n[i]
            a[i] = to.s[i] * step[i] if i < d else to.s[i]
        if start[d]:
            box[d] = start[d]
            if add_fill(batch, begin_at, pattern, element, element, to.rank, box, a):
                return 1
        if last < to.n[d]:
            box[d] = to.n[d] - last
            if add_fill(batch, begin_at + last * to.s[d], pattern, element, element, to.rank, box, a):
                return 1
        if step[d] > 1 and n[d] > 1:
            # Gaps are a dimension of their own.
            for i in range(to.rank, d, -1):
                box[i] = to.n[i - 1]
                a[i] = to.s[i - 1]
            box[d] = n[d] - 1
            a[d] = to.s[d] * step[d]
            box[d + 1] = step[d] - 1
            a[d + 1] = to.s[d]
            if add_fill(batch, begin_at + (start[d] + 1) * to.s[d], pattern, element, element, to.rank + 1, box, a):
                return 1
        begin_at += start[d] * to.s[d]
    return 0


def put_run(batch, to, element, d, start, n, run):
    """A run of a dimension from what already stands in it: start, length, source, step, repeats and their period."""
    box: int64_t[66]
    a: int64_t[66]
    b: int64_t[66]
    i: cython.int
    at: cython.p_char = to.data
    for i in range(to.rank):
        if i >= d:
            at += start[i] * to.s[i]
        box[i] = to.n[i] if i < d else n[i]
        a[i] = to.s[i]
        b[i] = to.s[i]
    box[d] = run[1]
    b[d] = run[3] * to.s[d]
    box[to.rank] = run[4]
    a[to.rank] = run[5] * to.s[d]
    b[to.rank] = 0
    return add(batch, at + run[0] * to.s[d], at + run[2] * to.s[d], element, to.rank + 1, box, a, b)


def extend(batch, to, element, start, n, mode):
    """What is outside a box, from what is inside, one dimension after the other; returns as `add`."""
    run: int64_t[6]
    d: cython.int
    for d in range(to.rank):
        for each in runs(mode, n[d], -start[d], 0) + runs(mode, n[d], n[d], to.n[d] - start[d]):
            numbers(each, run, 6)
            if put_run(batch, to, element, d, start, n, run):
                return 1
    return 0


def pad(x, pads, mode, value, out):
    """X with more around it: a value, its edge, its mirror image, or itself again."""
    v: View
    to: View
    k: Kind
    batch: Batch
    given: int64_t[128]
    n: int64_t[64]
    ones: int64_t[64]
    inner: cython.p_char
    d: cython.int
    if not is_text(mode) or read(x, cython.address(v), cython.address(k)):
        return None
    pattern = pattern_of(cython.address(k), value)
    # A value's own methods may have changed x.
    if pattern is None or (not is_plain(value) and read(x, cython.address(v), cython.address(k))):
        return None
    if numbers(pads, given, 2 * RANK) != 2 * v.rank:
        return None
    empty: cython.bint = False
    more: int64_t = 0
    for d in range(v.rank):
        if not (0 <= given[d] < 1 << 60 and 0 <= given[v.rank + d] < 1 << 60):
            return None
        n[d] = given[d] + v.n[d] + given[v.rank + d]
        ones[d] = 1
        empty = empty or v.n[d] == 0
        more |= given[d] | given[v.rank + d]
    is_constant: cython.bint = mode == "constant"
    if not is_constant and (empty or mode not in ("edge", "reflect", "symmetric", "wrap")):
        return None
    found = result(cython.address(k), cython.address(v), out, v.rank, n, cython.address(to))
    if found is None:
        return None
    begin(cython.address(batch))
    if empty:
        inner = PyBytes_AS_STRING(pattern)
        if add_fill(cython.address(batch), to.data, inner, k.element, k.element, v.rank, n, to.s):
            return None
        run_all(cython.address(batch))
        return found
    inner = to.data
    for d in range(v.rank):
        inner += given[d] * to.s[d]
    if add(cython.address(batch), inner, v.data, k.element, v.rank, v.n, to.s, v.s):
        return None
    if is_constant:
        if more and surround(
            cython.address(batch), cython.address(to), k.element, given, v.n, ones, PyBytes_AS_STRING(pattern)
        ):
            return None
    elif more and extend(cython.address(batch), cython.address(to), k.element, given, v.n, mode):
        return None
    run_all(cython.address(batch))
    return found


def slice_grad(x, sizes, window_offsets, window_sizes, window_strides, out):
    """X laid where `slice1` took it from, zeros elsewhere."""
    v: View
    to: View
    k: Kind
    batch: Batch
    n: int64_t[64]
    at: int64_t[64]
    window: int64_t[64]
    step: int64_t[64]
    a: int64_t[64]
    d: cython.int
    if read(x, cython.address(v), cython.address(k)):
        return None
    if numbers(sizes, n, RANK) != v.rank or numbers(window_offsets, at, RANK) != v.rank:
        return None
    if numbers(window_sizes, window, RANK) != v.rank or numbers(window_strides, step, RANK) != v.rank:
        return None
    for d in range(v.rank):
        if n[d] < 0 or at[d] < 0 or window[d] < 0 or at[d] > n[d] or window[d] > n[d] - at[d] or v.n[d] == 0:
            return None
        # The least step has no positive counterpart.
        if step[d] == 0 or step[d] < -(cython.cast(int64_t, 1) << 62) or window[d] == 0:
            return None
        if v.n[d] > 1 + (window[d] - 1) // (step[d] if step[d] > 0 else -step[d]):
            return None
    pattern = bytes(k.element)
    found = result(cython.address(k), cython.address(v), out, v.rank, n, cython.address(to))
    if found is None:
        return None
    inner: cython.p_char = to.data
    for d in range(v.rank):
        if step[d] < 0:
            at[d] += window[d] - 1
        inner += at[d] * to.s[d]
        a[d] = step[d] * to.s[d] if v.n[d] > 1 else 0
        if step[d] < 0:
            at[d] += step[d] * (v.n[d] - 1)
            step[d] = -step[d]
        if v.n[d] == 1:
            step[d] = 1
    begin(cython.address(batch))
    if add(cython.address(batch), inner, v.data, k.element, v.rank, v.n, a, v.s):
        return None
    if surround(cython.address(batch), cython.address(to), k.element, at, v.n, step, PyBytes_AS_STRING(pattern)):
        return None
    run_all(cython.address(batch))
    return found
