# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Moves of one call: each brought to its simplest form, as many run together as there are, up to a number."""

import cython
from cython.cimports.anydml.core.moving import (
    ANYDML_CLAMP,
    Lookup,
    Move,
    continues,
    run,
    simplify,
    simplify_looking,
)


def begin(batch):
    """Begin with no moves."""
    batch.count = 0
    batch.looks = 0
    batch.refused = 0


def add(batch, to, source, element, rank, n, a, b):
    """A move of a box without lookups; returns 1 where it has too many dimensions, and 0."""
    m: cython.pointer(Move) = cython.address(batch.moves[batch.count])
    m.to = to
    m.source = source
    m.element = element
    m.pattern = 0
    m.lookups = 0
    found: cython.int = simplify(m, rank, n, a, b)
    return 1 if found < 0 else 0 if found else _added(batch)


def add_fill(batch, to, pattern, period, element, rank, n, a):
    """A move of a few bytes to everywhere; returns as `add`."""
    m: cython.pointer(Move) = cython.address(batch.moves[batch.count])
    m.to = to
    m.source = pattern
    m.element = element
    m.pattern = period
    m.lookups = 0
    found: cython.int = simplify(m, rank, n, a, ZEROS)
    return 1 if found < 0 else 0 if found else _added(batch)


def _added(batch):
    m: cython.pointer(Move) = cython.address(batch.moves[batch.count])
    if batch.count and continues(cython.address(batch.moves[batch.count - 1]), m):
        return 0
    batch.count += 1
    return run_all(batch) if batch.count == MOST else 0


def look_up(batch, at, type, size, stride, outside, into):
    """A lookup of the move that is added next by `add_looking`, in the order in which they are looked up.

    Where an index lies outside that `outside` refuses, `batch.refused` is set when moves were run.
    """
    look: cython.pointer(Lookup) = cython.address(batch.lookups[batch.looks])
    look.at = at
    look.type = type
    look.size = size
    look.stride = stride
    look.outside = ANYDML_CLAMP if outside == REFUSE else outside
    look.refused = cython.address(batch.refused) if outside == REFUSE else cython.NULL
    look.into = into
    batch.looks += 1
    return look


def add_looking(batch, to, source, element, rank, n, a, b, looks, strides):
    """A move whose lookups were given last, with their strides; returns as `add`."""
    m: cython.pointer(Move) = cython.address(batch.moves[batch.count])
    m.to = to
    m.source = source
    m.element = element
    m.pattern = 0
    m.lookup = cython.address(batch.lookups[batch.looks - looks])
    m.lookups = looks
    found: cython.int = simplify_looking(m, rank, n, a, b, strides)
    if found < 0:
        return 1
    if found:
        batch.looks -= looks
        return 0
    found = _added(batch)
    if not found and batch.looks > 16:
        # Room for those of the next move.
        found = run_all(batch)
    return found


def run_all(batch):
    """Do what was added, and begin anew."""
    run(batch.moves, batch.count)
    batch.count = 0
    batch.looks = 0
    return 0
