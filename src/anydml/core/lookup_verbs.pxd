from anydml.core.moving cimport ANYDML_LOOKUPS, ANYDML_SKIP
from anydml.core.verbs cimport Box, Lookup, Maker, _refuse, room
from libc.stdint cimport int64_t

cdef enum:
    REFUSE = -1  # an index out of range is an error: there is no result

cdef int copy_looked_up(Maker *maker, Box *to, Box *x) except -1
cdef int64_t _axis_of_few_indices(const Box *x) noexcept
cdef int _copy_planes(Maker *maker, Box *to, Box *x, int64_t axis) except -1
cdef int reverse(Maker *maker, Box *to, Box *x, Box *lengths, int64_t axis) except -1
cdef bint resolve_index(const char *at, int64_t type_code, int64_t size, int64_t *resolved) noexcept nogil

# A box at x's address with a lookup for each of some axes, whose sizes and strides are still to be set.
cdef inline Box *_looked_up(
    Maker *maker, const Box *x, int64_t rank, const Box *indices, int64_t axis, int64_t more, int64_t outside
) except NULL:
    if x.lookups or indices.lookups or more > ANYDML_LOOKUPS:
        _refuse()
    y = <Box *>room(maker, sizeof(Box) // 8 + 2 * rank)
    y.data, y.rank, y.type, y.lookups = x.data, rank, x.type, more
    y.sizes = <int64_t *>(y + 1)
    y.strides = y.sizes + rank
    y.look = <Lookup *>room(maker, y.lookups * (sizeof(Lookup) // 8 + rank))
    s = <int64_t *>(y.look + y.lookups)
    for k in range(more):
        look = y.look + k
        look.at, look.type, look.outside, look.strides = indices.data, indices.type, outside, s + k * rank
        # The axis that a mask looks up has one element.
        look.size = 1 if indices.type == 1 else x.sizes[axis + k]
        look.stride = 0 if indices.type == 1 else x.strides[axis + k]
    return y

# The axes of indices in place of an axis.
cdef inline Box *pick(Maker *maker, Box *x, Box *indices, int64_t axis, int64_t outside) except NULL:
    y = _looked_up(maker, x, x.rank - 1 + indices.rank, indices, axis, 1, outside)
    look = y.look
    for d in range(y.rank):
        if axis <= d < axis + indices.rank:
            y.sizes[d], y.strides[d], look.strides[d] = indices.sizes[d - axis], 0, indices.strides[d - axis]
        else:
            from_axis = d if d < axis else d - indices.rank + 1
            y.sizes[d], y.strides[d], look.strides[d] = x.sizes[from_axis], x.strides[from_axis], 0
    return y

# One index per element.
cdef inline Box *pick_along(Maker *maker, Box *x, Box *indices, int64_t axis, int64_t outside) except NULL:
    y = _looked_up(maker, x, x.rank, indices, axis, 1, outside)
    look = y.look
    for d in range(y.rank):
        y.sizes[d], y.strides[d], look.strides[d] = indices.sizes[d], 0 if d == axis else x.strides[d], indices.strides[d]
    return y

# One list of coordinates per element.
cdef inline Box *pick_tuples(Maker *maker, Box *x, Box *indices, int64_t batch, int64_t outside) except NULL:
    count = indices.rank - 1
    length = indices.sizes[count]
    y = _looked_up(maker, x, count + x.rank - batch - length, indices, batch, length, outside)
    for d in range(y.rank):
        from_axis = d if d < batch else d - count + batch + length
        y.sizes[d] = indices.sizes[d] if d < count else x.sizes[from_axis]
        y.strides[d] = 0 if batch <= d < count else x.strides[from_axis]
    for q in range(length):
        look = y.look + q
        look.at += q * indices.strides[count]
        for d in range(y.rank):
            look.strides[d] = indices.strides[d] if d < count else 0
    return y

# The elements whose byte of a mask is 0: only this is a valid index on an axis of one element.
cdef inline Box *unless(Maker *maker, Box *x, Box *mask) except NULL:
    return pick_along(maker, x, mask, -1, ANYDML_SKIP)
