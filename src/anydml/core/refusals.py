"""Indices that may not be outside of their axes: looked for before anything is written."""

import cython
from cython.cimports.anydml.core.arrays import View
from cython.cimports.anydml.core.indices import are_inside
from cython.cimports.anydml.core.moving import ANYDML_SKIP, Lookup
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint32_t
from cython.cimports.libc.string import memcpy


def first_outside(m, number):
    """The first index of a move's lookup, in row-major order, that is outside its axis; NULL where there is none."""
    n: int64_t[16]
    c: int64_t[16]
    counts: cython.bint[16]
    at: cython.p_const_char
    offset: int64_t
    k: cython.int
    d: cython.int
    strict: Lookup = m.lookup[number]
    # An index that would be skipped is outside.
    strict.outside = ANYDML_SKIP
    for k in range(number, -1, -1):
        counts[k] = k == number or (m.lookup[k].into >= 0 and counts[m.lookup[k].into])
    if are_plain(m, number, counts) and are_all_inside(m, number):
        return cython.NULL
    for d in range(m.rank):
        c[d] = 0
        n[d] = 1
        for k in range(number + 1):
            if counts[k] and m.lookup[k].b[d]:
                n[d] = m.n[d]
    while True:
        at = place_of(m, number, counts, c)
        if at != cython.NULL and not index_of(cython.address(strict), at, cython.address(offset)):
            return at
        d = m.rank - 1
        while d >= 0:
            c[d] += 1
            if c[d] < n[d]:
                break
            c[d] = 0
            d -= 1
        if d < 0:
            return cython.NULL


def are_plain(m, number, counts):
    """Whether a lookup's indices are integers at places that depend on no other lookup."""
    k: cython.int
    for k in range(number):
        if counts[k]:
            return False
    return m.lookup[number].type != 1


def are_all_inside(m, number):
    """Whether all indices of such a lookup lie on its axis; those that are used again are looked at once."""
    v: View
    n: int64_t[16]
    s: int64_t[16]
    d: cython.int
    look: cython.pointer(Lookup) = m.lookup + number
    v.rank = 0
    v.data = cython.cast(cython.p_char, look.at)
    v.n = n
    v.s = s
    for d in range(m.rank):
        if not look.b[d]:
            continue
        if v.rank and s[v.rank - 1] == look.b[d] * m.n[d]:
            n[v.rank - 1] *= m.n[d]
            s[v.rank - 1] = look.b[d]
        else:
            n[v.rank] = m.n[d]
            s[v.rank] = look.b[d]
            v.rank += 1
    return are_inside(cython.address(v), look.type, look.size)


def index_of(lookup, at, offset):
    """What the index at an address is worth to a lookup; False where it is outside, and skipped."""
    i: int64_t = 0
    word: uint32_t = 0
    if lookup.type == 1:
        i = cython.cast(cython.pointer(cython.const[uint8_t]), at)[0]
    elif lookup.type == 4 or lookup.type == -4:
        memcpy(cython.address(word), at, 4)
        i = word
        if lookup.type == -4:
            i = cython.cast(int32_t, word)
    else:
        memcpy(cython.address(i), at, 8)
        if lookup.type == 8 and i < 0:
            i = lookup.size
    if i < 0 and lookup.type < 0:
        i += lookup.size
    if i < 0 or i >= lookup.size:
        if lookup.outside == ANYDML_SKIP:
            return False
        i = 0 if i < 0 else lookup.size - 1
    offset[0] = i * lookup.stride
    return True


def place_of(m, number, counts, c):
    """Where the index of a lookup lies, given those that count for that and a coordinate; NULL where it is skipped."""
    at: cython.p_const_char[16]
    offset: int64_t
    k: cython.int
    d: cython.int
    at[number] = cython.NULL
    for k in range(number + 1):
        at[k] = m.lookup[k].at
        for d in range(m.rank):
            at[k] += c[d] * m.lookup[k].b[d]
    for k in range(number):
        if counts[k]:
            if not index_of(m.lookup + k, at[k], cython.address(offset)):
                return cython.NULL
            at[m.lookup[k].into] += offset
    return at[number]
