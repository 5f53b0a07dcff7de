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
from cython.cimports.anydml.core.moving import ANYDML_CLAMP, has_invalid_index, run
from cython.cimports.anydml.core.simplifying import extend_move, simplify


def begin(c, x):
    """Begin a call on an array; returns as `read_array`."""
    c.total = c.count = c.lookup_count = c.has_out = c.is_in_place = c.is_unfit = c.refused = c.refusing = 0
    c.indices.data = c.updates.data = cython.NULL
    return read_array(x, c.x, c.kind)


def make_result(c, out, rank, n):
    """Return a result of x's kind: a new array, or `out` if it fits and overlaps no argument.

    Otherwise the result is None, no move is run, and `finish` returns None.
    """
    size: int64_t = c.kind.element
    found = out
    if out is None:
        found = new_result(c.kind, rank, n, c.to)
    elif (
        read_output(out, c.kind, rank, n, c.to)
        or not (c.is_in_place or is_disjoint(c.to, size, c.x, size))
        or not (c.indices.data == cython.NULL or is_disjoint(c.to, size, c.indices, abs(c.type)))
        or not (c.updates.data == cython.NULL or is_disjoint(c.to, size, c.updates, size))
    ):
        found = None
    c.has_out = out is not None
    if found is None:
        c.is_unfit = True
        c.to.data, c.to.rank, c.to.n, c.to.s = cython.NULL, rank, n, ZEROS
    return found


def add_move(c, to, source, rank, n, a, b):
    """Add a move of a box without lookups."""
    return _keep_move(c, simplify(_next_move(c, to, source, 0), rank, n, a, b, cython.NULL))


def add_fill(c, to, rank, n, a):
    """Add a move that fills a box with the call's pattern."""
    return _keep_move(c, simplify(_next_move(c, to, c.pattern, c.kind.element), rank, n, a, ZEROS, cython.NULL))


def read_outside(c, word, other):
    """Set the treatment of indices out of range by an argument: ``"error"``, or the name of `other`.

    Returns 1 to fall back to Python.
    """
    # Comparing other types could run code that changes arrays already read.
    if type(word) is not str:
        return 1
    c.outside = REFUSE if word == "error" else other
    return word != "error" and word != ("clamp" if other == ANYDML_CLAMP else "skip")


def add_lookup(c, at, size, stride, into):
    """Add a lookup to the move that `finish_lookups` makes, in order of evaluation.

    If an index that must be in range is not, the call returns no result.
    """
    look: cython.pointer(Lookup) = c.lookups + c.lookup_count
    look.at = at
    look.type = c.type
    look.size = size
    look.stride = stride
    look.outside = ANYDML_CLAMP if c.outside == REFUSE else c.outside
    # A new result may be written before all indices are checked.
    look.refused = cython.address(c.refused) if c.outside == REFUSE and not c.has_out else cython.NULL
    look.into = into
    if c.outside == REFUSE and c.has_out:
        c.refusing |= 1 << c.lookup_count
    # No index is valid on an empty axis.
    c.is_unfit |= size == 0 and look.outside == ANYDML_CLAMP
    c.lookup_count += 1


def finish_lookups(c, found, source, rank, n, a, b, s):
    """Add a move by all lookups, which share their strides, and return as `finish`."""
    strides: cython.pointer(cython.const[int64_t])[16]
    m: cython.pointer(Move) = _next_move(c, c.to.data, source, 0)
    m.lookup = c.lookups
    m.lookups = c.lookup_count
    for k in range(c.lookup_count):
        strides[k] = s
    simplified: cython.int = simplify(m, rank, n, a, b, strides)
    if c.refusing and simplified == 0 and has_invalid_index(m, c.refusing):
        return None
    _keep_move(c, simplified)
    return finish(c, found)


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


def finish(c, found):
    """Run the pending moves and return the result; None to fall back to Python, which may reject an index."""
    if c.is_unfit:
        return None
    if c.has_out:
        notify_written(found, c.kind)
    _flush(c)
    return None if c.refused else found


def finish_view(c, out, rank, n, source, b):
    """``result[c] = *(source + Σ c·b)`` for every coordinate of the result's shape n."""
    found = make_result(c, out, rank, n)
    add_move(c, c.to.data, source, rank, n, c.to.s, b)
    return finish(c, found)
