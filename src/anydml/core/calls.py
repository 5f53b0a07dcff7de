"""Common parts of calls: read an array, make the result, collect moves and run them in batches."""

import cython
from cython.cimports.anydml.core.arrays import (
    element_count,
    is_disjoint,
    new_result,
    notify_written,
    read_array,
    read_output,
)
from cython.cimports.anydml.core.moving import run
from cython.cimports.anydml.core.simplifying import extend_move, simplify


def begin(c, x):
    """Begin a call on an array; returns as `read_array`."""
    c.total = c.count = c.lookup_count = c.has_out = c.is_in_place = c.is_unfit = c.refused = 0
    return read_array(x, c.x, c.kind)


def make_result(c, out, rank, n):
    """Return a result of x's kind: a new array, or `out` if it fits and does not overlap x.

    Otherwise the result is None, no move is run, and `finish` returns None.
    """
    size: int64_t = c.kind.element
    result = out
    if out is None:
        result = new_result(c.kind, rank, n, c.to)
    elif read_output(out, c.kind, rank, n, c.to) or not (c.is_in_place or is_disjoint(c.to, size, c.x, size)):
        result = None
    c.has_out = out is not None
    if result is None:
        c.is_unfit = True
        c.to.data, c.to.rank, c.to.n, c.to.s = cython.NULL, rank, n, ZEROS
    return result


def add_move(c, to, source, rank, n, a, b):
    """Add a move of a box without lookups."""
    return _keep_move(c, simplify(_next_move(c, to, source, 0), rank, n, a, b, cython.NULL))


def add_fill(c, to, rank, n, a):
    """Add a move that fills a box with the call's pattern."""
    return _keep_move(c, simplify(_next_move(c, to, c.pattern, c.kind.element), rank, n, a, ZEROS, cython.NULL))


def _next_move(c, to, source, pattern):
    """Return the next move; its box is still to be set."""
    m: cython.pointer(Move) = c.moves + c.count
    m.to = to
    m.source = source
    m.element = c.kind.element
    m.pattern = pattern
    m.lookups = 0
    return m


def _keep_move(c, simplified):
    """Keep the last move, unless it is empty or merges into the one before it."""
    if simplified:
        c.is_unfit |= simplified < 0
    elif not c.count or not extend_move(c.moves + c.count - 1, c.moves + c.count, True):
        c.count += 1
        if c.count == MOST:
            c.total = c.kind.element * max(element_count(c.x.rank, c.x.n), element_count(c.to.rank, c.to.n))
            return _flush(c)
    return 0


def _flush(c):
    """Run the pending moves and clear them."""
    if not c.is_unfit:
        run(c.moves, c.count, c.total)
    c.count = 0
    return 0


def finish(c, result):
    """Run the pending moves and return the result; None to fall back to Python, which may reject an index."""
    if c.is_unfit:
        return None
    if c.has_out:
        notify_written(result, c.kind)
    _flush(c)
    return None if c.refused else result
