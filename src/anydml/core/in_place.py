"""Results in the caller's memory: no-op moves are dropped, conflicts and possible overlaps are refused."""

import cython
from cython.cimports.anydml.core.arrays import is_disjoint, read_output
from cython.cimports.anydml.core.ranges import are_disjoint, reads_outside, write_range

MAX_MOVES = cython.declare(cython.int, 64)
"""Maximum number of moves that are compared with each other."""


def remove_noops(moves, count):
    """Remove no-op moves; returns the number left."""
    remaining: int64_t = 0
    for k in range(count):
        if not is_noop(moves + k):
            if remaining < k:
                moves[remaining] = moves[k]
            remaining += 1
    return remaining


def is_noop(m):
    """Whether a move is a no-op, because it writes every element to its own address."""
    if m.lookups or m.pattern or m.to != m.source:
        return False
    for d in range(m.rank):
        if m.a[d] != m.b[d]:
            return False
    return True


def conflicts(moves, count, results):
    """Whether a move may write arguments' memory that it reads or another move accesses; true for too many moves.

    No move is a no-op. `results` is the address range of the arguments that are also results, or empty.
    """
    written: Range
    if results.low == results.high:
        return False
    if count > MAX_MOVES:
        return True
    for k in range(count):
        written = write_range(moves + k)
        if are_disjoint(written, results):
            continue
        for j in range(count):
            if not reads_outside(written, moves + j) or (k != j and not are_disjoint(written, write_range(moves + j))):
                return True
    return False


def check_output(arguments, array, views, k, kind, rank, n):
    """Check the caller's array for result k, of this kind, rank and sizes, and add its view to earlier results'.

    Returns 0 to fall back to Python, if it does not fit or may overlap; 2 if it is an argument's memory; else 1.
    """
    fit: cython.int = 1
    if read_output(array, kind, rank, n, cython.address(views[k])):
        return 0
    for j in range(arguments.count):
        if is_disjoint(
            cython.address(views[k]), kind.element, cython.address(arguments.views[j]), arguments.kinds[j].element
        ):
            continue
        if arguments.kinds[j].element != kind.element or not is_same_view(
            cython.address(views[k]), cython.address(arguments.views[j])
        ):
            return 0
        fit = 2
    for j in range(k):
        # No result has longer elements than this.
        if not is_disjoint(cython.address(views[k]), kind.element, cython.address(views[j]), 64):
            return 0
    return fit


def is_same_view(v, w):
    """Whether two arrays have the same address, sizes and strides."""
    if v.data != w.data or v.rank != w.rank:
        return False
    for d in range(v.rank):
        if v.sizes[d] != w.sizes[d] or v.strides[d] != w.strides[d]:
            return False
    return True
