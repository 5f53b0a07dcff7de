"""Compiled versions of the verbs that look up indices, and of the moves that they produce.

They have the meaning and the arguments of those in `anydml.moves.verbs`. A box with lookups cannot be cut or looked up
again, only read or written.
"""

import cython
from cython.cimports.anydml.core.moving import (
    ANYDML_CLAMP,
    ANYDML_SKIP,
    Lookup,
    Move,
    offset_by,
)
from cython.cimports.anydml.core.simplifying import Call, add_move, has_invalid_index, keep_move, next_move, simplify
from cython.cimports.anydml.core.verbs import REFUSED, numbers
from cython.cimports.libc.stdint import int32_t, uint32_t, uint64_t

MAX_SINGLE_INDICES = cython.declare(int64_t, 8)
"""Maximum number of indices with one move each; also of columns that are interleaved at once."""

CALL_LOOKUPS = cython.declare(cython.int, 16)
"""Maximum number of lookups of all moves of a call."""


def resolve_index(at, type_code, size, resolved):
    """Convert an index to 0 to size − 1: a negative one counts from the end, then it is clamped.

    Returns whether it was out of range.
    """
    if type_code == 8 and cython.cast(cython.pointer(uint64_t), at)[0] >= cython.cast(uint64_t, size):
        i = size
    elif type_code == 4:
        i = cython.cast(cython.pointer(uint32_t), at)[0]
    elif type_code == -4:
        i = cython.cast(cython.pointer(int32_t), at)[0]
    else:
        i = cython.cast(cython.pointer(int64_t), at)[0]
    if i < 0:
        i += size
    resolved[0] = max(0, min(i, size - 1))
    return resolved[0] != i


def copy_looked_up(maker, to, x):
    """Write a view to a place of the same sizes; the view or the place has lookups."""
    c: cython.pointer(Call) = maker.call
    for d in range(x.rank):
        if x.sizes[d] == 0:
            return 0
    axis = -1 if to.lookups else _axis_of_few_indices(x)
    if axis >= 0:
        return _copy_planes(maker, to, x, axis)
    count = to.lookups + x.lookups
    if c.lookup_count + count > CALL_LOOKUPS:
        raise REFUSED
    m: cython.pointer(Move) = next_move(c, to.data, x.data, 0)
    m.lookup = c.lookups + c.lookup_count
    m.lookups = cython.cast(cython.int, count)
    strides: cython.pointer(cython.const[int64_t])[16]
    refusing: cython.int = 0
    for k in range(count):
        lookup = to.look + k if k < to.lookups else x.look + (k - to.lookups)
        look: cython.pointer(Lookup) = m.lookup + k
        look.at, look.type, look.size, look.stride = lookup.at, lookup.type, lookup.size, lookup.stride
        look.outside = ANYDML_CLAMP if lookup.outside == REFUSE else lookup.outside
        # A new result may be written before all indices are checked.
        look.refused = cython.address(c.refused) if lookup.outside == REFUSE and not c.has_out else cython.NULL
        look.into = -2 if k < to.lookups else -1
        if lookup.outside == REFUSE and c.has_out:
            refusing |= 1 << k
        # No index is valid on an empty axis.
        if lookup.size == 0 and look.outside == ANYDML_CLAMP:
            raise REFUSED
        strides[k] = lookup.strides
    c.lookup_count += m.lookups
    simplified: cython.int = simplify(m, cython.cast(cython.int, x.rank), x.sizes, to.strides, x.strides, strides)
    if refusing and simplified == 0 and has_invalid_index(m, refusing):
        raise REFUSED
    return keep_move(c, simplified)


def _axis_of_few_indices(x):
    """Return the axis along which there are few indices; the rank if there is one index; −1 if there are more."""
    axis = x.rank
    for d in range(x.rank):
        if x.sizes[d] > 1 and x.look.strides[d]:
            if x.sizes[d] > MAX_SINGLE_INDICES or axis != x.rank:
                return -1
            axis = d
    return axis if x.lookups == 1 and x.look.size and x.look.type != 1 else -1


def _copy_planes(maker, to, x, axis):
    """Copy what each index selects; planes of short columns are interleaved together."""
    look = x.look
    index: int64_t
    n = numbers(maker, x.rank).at
    for d in range(x.rank):
        n[d] = 1 if d == axis else x.sizes[d]
    is_one: cython.bint = axis == x.rank
    for k in range(1 if is_one else x.sizes[axis]):
        at = look.at if is_one else look.at + k * look.strides[axis]
        if resolve_index(at, look.type, look.size, cython.address(index)):
            if look.outside == REFUSE:
                raise REFUSED
            if look.outside == ANYDML_SKIP:
                continue
        into = to.data if is_one else offset_by(to.data, k * to.strides[axis])
        source = offset_by(x.data, index * look.stride + (0 if is_one else k * x.strides[axis]))
        add_move(maker.call, into, source, cython.cast(cython.int, x.rank), n, to.strides, x.strides)
    return 0


def reverse(maker, to, x, lengths, axis):
    """Write the first elements of each row, as many as its length says, reversed."""
    offset: int64_t
    rows: int64_t = 1
    n = numbers(maker, x.rank).at
    b = numbers(maker, x.rank).at
    if to.lookups or x.lookups or lengths.lookups:
        raise REFUSED
    for d in range(x.rank):
        n[d], b[d] = 1, 0
        rows *= lengths.sizes[d]
    size = x.sizes[axis]
    step = x.strides[axis]
    b[axis] = -step
    for row in range(rows if size else 0):
        into: cython.p_char = to.data
        source: cython.p_char = x.data
        length: cython.p_char = lengths.data
        row_left: int64_t = row
        for d in range(x.rank - 1, -1, -1):
            coordinate = row_left % lengths.sizes[d]
            row_left //= lengths.sizes[d]
            into += coordinate * to.strides[d]
            source += coordinate * x.strides[d]
            length += coordinate * lengths.strides[d]
        # A length is an index on an axis of size + 1.
        resolve_index(length, lengths.type, size + 1, cython.address(offset))
        if offset > 1:
            n[axis] = offset
            source += (offset - 1) * step
            add_move(maker.call, into, source, cython.cast(cython.int, x.rank), n, to.strides, b)
    return 0
