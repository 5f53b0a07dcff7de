"""Common parts of calls: read an array, make the result, collect moves and run them in batches."""

import cython
from cython.cimports.anydml.core.arguments import is_text
from cython.cimports.anydml.core.arrays import apart, make, read, target, tell
from cython.cimports.anydml.core.moving import (
    ANYDML_CLAMP,
    Lookup,
    Move,
    refuses,
    run,
)
from cython.cimports.anydml.core.simplifying import continues, simplify
from cython.cimports.libc.stdint import int64_t


def opened(c, x):
    """Begin a call on an array; returns as `read`."""
    c.count = c.looks = c.is_given = c.is_unfit = c.refused = c.refusing = 0
    return read(x, c.x, c.kind)


def result(c, out, rank, n):
    """Return a result of x's kind: a new array, or `out` if it fits and does not overlap x; else None."""
    if out is None:
        return make(c.kind, rank, n, c.to)
    c.is_given = True
    if target(out, c.kind, rank, n, c.to) or not apart(c.to, c.kind.element, c.x, c.kind.element):
        return None
    return out


def move(c, to, source, rank, n, a, b):
    """Add a move of a box without lookups."""
    return _added(c, simplify(_next(c, to, source, 0), rank, n, a, b, cython.NULL))


def fill_box(c, to, rank, n, a):
    """Add a move that fills a box with the call's pattern."""
    return _added(c, simplify(_next(c, to, c.pattern, c.kind.element), rank, n, a, ZEROS, cython.NULL))


def choose_outside(c, word, other):
    """Set the treatment of indices out of range by an argument: ``"error"``, or the name of `other`.

    Returns 1 to fall back to Python.
    """
    if not is_text(word):
        return 1
    c.outside = REFUSE if word == "error" else other
    return word != "error" and word != ("clamp" if other == ANYDML_CLAMP else "skip")


def look_up(c, at, size, stride, into):
    """Add a lookup to the move that `looked_up` makes, in order of evaluation.

    If an index that must be in range is not, the call returns no result.
    """
    look: cython.pointer(Lookup) = c.lookups + c.looks
    look.at = at
    look.type = c.type
    look.size = size
    look.stride = stride
    look.outside = ANYDML_CLAMP if c.outside == REFUSE else c.outside
    # A new result may be written before all indices are checked.
    look.refused = cython.address(c.refused) if c.outside == REFUSE and not c.is_given else cython.NULL
    look.into = into
    if c.outside == REFUSE and c.is_given:
        c.refusing |= 1 << c.looks
    # No index is valid on an empty axis.
    c.is_unfit |= size == 0 and look.outside == ANYDML_CLAMP
    c.looks += 1


def looked_up(c, found, source, rank, n, a, b, s):
    """Add a move by all lookups, which share their strides, and return as `done`."""
    k: cython.int
    strides: cython.pointer(cython.const[int64_t])[16]
    m: cython.pointer(Move) = _next(c, c.to.data, source, 0)
    m.lookup = c.lookups
    m.lookups = c.looks
    for k in range(c.looks):
        strides[k] = s
    simplified: cython.int = simplify(m, rank, n, a, b, strides)
    if c.refusing and simplified == 0 and refuses(m, c.refusing):
        return None
    _added(c, simplified)
    return done(c, found)


def _next(c, to, source, pattern):
    """Return the next move; its box is still to be set."""
    m: cython.pointer(Move) = c.moves + c.count
    m.to = to
    m.source = source
    m.element = c.kind.element
    m.pattern = pattern
    m.lookups = 0
    return m


def _added(c, simplified):
    """Keep the last move, unless it is empty or merges into the one before it."""
    if simplified:
        c.is_unfit |= simplified < 0
    elif not c.count or not continues(c.moves + c.count - 1, c.moves + c.count, True):
        c.count += 1
        if c.count == MOST:
            return _run(c)
    return 0


def _run(c):
    """Run the pending moves and clear them."""
    if not c.is_unfit:
        run(c.moves, c.count)
    c.count = 0
    return 0


def done(c, found):
    """Run the pending moves and return the result; None to fall back to Python, which may reject an index."""
    if c.is_unfit:
        return None
    if c.is_given:
        tell(found, c.kind)
    _run(c)
    return None if c.refused else found


def moved(c, out, rank, n, source, b):
    """``result[c] = *(source + Σ c·b)`` for every coordinate of the result's shape n."""
    found = result(c, out, rank, n)
    if found is not None:
        move(c, c.to.data, source, rank, n, c.to.s, b)
        found = done(c, found)
    return found
