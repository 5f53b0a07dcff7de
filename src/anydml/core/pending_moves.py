"""The moves of a call, collected and run in batches."""

import cython
from cython.cimports.anydml.core.arrays import element_count
from cython.cimports.anydml.core.moving import run
from cython.cimports.anydml.core.simplifying import extend_move, simplify


def add_move(c, to, source, rank, n, a, b):
    """Add a move of a box without lookups."""
    return keep_move(c, simplify(next_move(c, to, source, 0), rank, n, a, b, cython.NULL))


def add_fill(c, to, rank, n, a):
    """Add a move that fills a box with the call's pattern."""
    return keep_move(c, simplify(next_move(c, to, c.pattern, c.kind.element), rank, n, a, ZEROS, cython.NULL))


def next_move(c, to, source, pattern):
    """Return the next move, whose box the caller must set."""
    m: cython.pointer(Move) = c.moves + c.count
    m.to = to
    m.source = source
    m.element = c.kind.element
    m.pattern = pattern
    m.lookups = 0
    return m


def keep_move(c, simplified):
    """Keep the last move, unless it is empty or merges into the one before it."""
    if simplified:
        c.is_unfit |= simplified < 0
    elif not c.count or not extend_move(c.moves + c.count - 1, c.moves + c.count, True):
        c.count += 1
        if c.count == MAX_PENDING:
            c.total = c.kind.element * max(element_count(c.x.rank, c.x.sizes), element_count(c.to.rank, c.to.sizes))
            return run_moves(c)
    return 0


def run_moves(c):
    """Run the pending moves and clear them.

    Raises:
        KeyboardInterrupt: or another exception that a signal handler raises; `count` is then −1.
    """
    count = c.count
    c.count = -1
    if not c.is_unfit:
        run(c.moves, count, c.total)
    c.count = 0
    return 0
