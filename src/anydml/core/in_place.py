"""Moves whose results lie in the memory of an argument: what stays where it is goes, and what mixes is refused."""

import cython
from cython.cimports.anydml.core.reaches import Reach, are_apart, reads_apart, writes
from cython.cimports.libc.stdint import int64_t

MOST_MOVES = cython.declare(cython.int, 64)
"""Moves that are compared with each other."""


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
        given: from the first to the last byte of the arguments that are results, too; none where there are none.
    """
    k: int64_t
    j: int64_t
    written: Reach
    if given.low == given.high:
        return False
    if count > MOST_MOVES:
        return True
    for k in range(count):
        written = writes(moves + k)
        if are_apart(written, given):
            continue
        for j in range(count):
            if not reads_apart(written, moves + j) or (k != j and not are_apart(written, writes(moves + j))):
                return True
    return False
