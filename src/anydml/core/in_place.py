# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Moves whose results lie in the memory of an argument: what stays where it is goes, and what mixes is refused."""

import cython
from cython.cimports.anydml.core.moving import Lookup
from cython.cimports.libc.stdint import int64_t

if not cython.compiled:
    raise ImportError("this module has to be compiled")

MOST_MOVES = cython.declare(cython.int, 64)
"""Moves that are compared with each other."""


def widen(span, v, element):
    """Make a span as long as an array needs it, too."""
    d: cython.int
    own: Span
    own.low = cython.cast(int64_t, v.data)
    own.high = own.low + element
    for d in range(v.rank):
        add(cython.address(own), v.s[d] * (v.n[d] - 1))
    span.low = min(span.low, own.low)
    span.high = max(span.high, own.high)


def without_staying(moves, count):
    """Take out the moves that leave all elements where they are; returns how many are left."""
    k: int64_t
    left: int64_t = 0
    for k in range(count):
        if not stays(moves + k):
            moves[left] = moves[k]
            left += 1
    return left


def stays(m):
    """Whether a move writes every element where it reads it."""
    d: cython.int
    if m.lookups or m.pattern or m.to != m.source:
        return False
    for d in range(m.rank):
        if m.a[d] != m.b[d]:
            return False
    return True


def mixes(moves, count, given):
    """Whether a move may write what it or another one reads or writes of the arguments; also true of many moves.

    Args:
        moves: those that do not stay.
        count: how many.
        given: from the first to the last byte of the arguments that are results, too.
    """
    k: int64_t
    j: int64_t
    if count > MOST_MOVES:
        return True
    for k in range(count):
        if not meet(writes(moves + k), given):
            continue
        for j in range(count):
            if meets(moves + k, moves + j) or (k != j and meet(writes(moves + k), writes(moves + j))):
                return True
    return False


def meets(m, other):
    """Whether what a move writes may be read by another one, or by itself."""
    written: Span = writes(m)
    k: cython.int
    d: cython.int
    span: Span
    look: cython.pointer(Lookup)
    if not other.pattern and meet(written, reads(other)):
        return True
    for k in range(other.lookups):
        look = other.lookup + k
        # No index has more than 8 bytes.
        span.low = cython.cast(int64_t, look.at)
        span.high = span.low + 8
        for d in range(other.rank):
            add(cython.address(span), look.b[d] * (other.n[d] - 1))
        add_lookups(cython.address(span), other, k)
        if meet(written, span):
            return True
    return False


def writes(m):
    """The bytes between the first and the last that a move may write."""
    return spanned(m, m.to, m.a, -2)


def reads(m):
    """Likewise those that it may read."""
    return spanned(m, m.source, m.b, -1)


def spanned(m, first, strides, into):
    """The bytes that one end of a move spans: from its first element on, by these strides and lookups."""
    d: cython.int
    span: Span
    span.low = cython.cast(int64_t, first)
    span.high = span.low + m.element
    for d in range(m.rank):
        add(cython.address(span), strides[d] * (m.n[d] - 1))
    add_lookups(cython.address(span), m, into)
    return span


def add_lookups(span, m, into):
    """Make a span as long as what is looked up into it says."""
    k: cython.int
    for k in range(m.lookups):
        if m.lookup[k].into == into:
            add(span, m.lookup[k].stride * (m.lookup[k].size - 1))


def add(span, reach):
    """Make a span longer, to the side that a number of bytes says."""
    if reach < 0:
        span.low += reach
    else:
        span.high += reach


def meet(span, other):
    """Whether two spans have a byte in common."""
    return span.low < other.high and other.low < span.high
