# The verbs of operators' rules, compiled: views as plain numbers, which mean what those of `anydml.moves.verbs` mean.
from anydml.core.moving cimport offset_by
from anydml.core.ranges cimport Range
from anydml.core.simplifying cimport Call
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

cdef extern from *:
    """
    /* Loops over a few axes: vectors would take longer to begin. */
    #if defined(__GNUC__) && !defined(__clang__)
    #pragma GCC optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns")
    #endif
    """

cdef enum:
    ROOM = 512  # numbers of a call that needs no more

ctypedef char *Item  # bytes of an element

cdef struct Integers:
    int64_t *at
    int64_t count

cdef struct Lookup:  # an index per element of a box, which is read and added to an address
    const char *at
    int64_t *strides  # of the indices, one per axis of the box
    int64_t size
    int64_t stride
    int64_t type
    int64_t outside

cdef struct Box:  # a view, or a place; begins as its sizes do
    int64_t *sizes
    int64_t rank
    char *data
    int64_t *strides  # in bytes
    int64_t type  # of indices, as in lookups; 0 for elements
    Lookup *look
    int64_t lookups

cdef struct Boxes:
    Box **at
    int64_t count

cdef struct Shapes:
    Integers **at
    int64_t count

cdef struct Maker:
    Call call[1]
    Boxes inputs
    int64_t *next      # the first free number,
    int64_t left       # and how many there are
    int64_t *blocks    # more memory: each block's first number is the address of the one before
    PyObject *out      # the caller's array, or list of arrays; NULL if results are new
    PyObject *parts    # the list of results; NULL if there is one
    PyObject *only_result # the only result, which the call owns
    PyObject *first    # the first array
    Item zeros         # an element of zeros, or NULL
    int64_t item_size  # bytes of an element among the arguments, or 0
    Range *written     # by the arrays of `out`
    int64_t runs       # of the rule
    int64_t count      # of results in this run
    bint is_trial      # whether this run only looks at `out`
    bint may_update    # whether `out` may be the first array
    int64_t first_room[512]

cdef object REFUSED
cdef int _refuse() except -1

# Memory for numbers, as long as the call runs.
cdef inline int64_t *room(Maker *maker, int64_t count) except NULL:
    cdef int64_t *memory = maker.next
    if count > maker.left:
        return _more_room(maker, count)
    maker.next += count
    maker.left -= count
    return memory

# A box at x's address, whose sizes and strides are still to be set. What is looked up is only read or written.
cdef inline Box *_box(Maker *maker, const Box *x, int64_t rank) except NULL:
    cdef Box *y = <Box *>room(maker, sizeof(Box) // 8 + 2 * rank)
    if x.lookups:
        _refuse()
    y.data, y.rank, y.type, y.lookups = x.data, rank, x.type, 0
    y.sizes = <int64_t *>(y + 1)
    y.strides = y.sizes + rank
    return y

# Axes of x, from one on, as those of a box.
cdef inline void _take_axes(Box *y, int64_t place, const Box *x, int64_t axis, int64_t count) noexcept:
    cdef int64_t *n = y.sizes + place
    cdef int64_t *s = y.strides + place
    for d in range(count):
        n[d] = x.sizes[axis + d]
        s[d] = x.strides[axis + d]

# Integers still to be set.
cdef inline Integers *numbers(Maker *maker, int64_t count) except NULL:
    cdef Integers *result = <Integers *>room(maker, sizeof(Integers) // 8 + count)
    result.at, result.count = <int64_t *>(result + 1), count
    return result

cdef int64_t *_more_room(Maker *maker, int64_t count) except NULL

# Element i along the axis is ``x[start + step · i]``.
cdef inline Box *cut(Maker *maker, Box *x, int64_t axis, int64_t start, int64_t size, int64_t step) except NULL:
    y = _box(maker, x, x.rank)
    _take_axes(y, 0, x, 0, x.rank)
    y.data = offset_by(x.data, start * x.strides[axis])
    # A stride that is never taken may be beyond 64 bits.
    y.sizes[axis], y.strides[axis] = size, step * x.strides[axis] if size > 1 else 0
    return y

# A cut of every axis.
cdef inline Box *window(Maker *maker, Box *x, Integers *first, Integers *count, Integers *step) except NULL:
    y = _box(maker, x, x.rank)
    for d in range(x.rank):
        y.data = offset_by(y.data, first.at[d] * x.strides[d])
        y.sizes[d] = count.at[d]
        y.strides[d] = step.at[d] * x.strides[d] if count.at[d] > 1 else 0
    return y

# The elements whose coordinate along the axis is k, without the axis.
cdef inline Box *at(Maker *maker, Box *x, int64_t axis, int64_t k) except NULL:
    y = _box(maker, x, x.rank - 1)
    y.data = offset_by(x.data, k * x.strides[axis])
    _take_axes(y, 0, x, 0, axis)
    _take_axes(y, axis, x, axis + 1, y.rank - axis)
    return y

# Axis k is x's ``axes[k]``.
cdef inline Box *permute(Maker *maker, Box *x, Integers *axes) except NULL:
    y = _box(maker, x, x.rank)
    for d in range(x.rank):
        from_axis = axes.at[d]
        y.sizes[d], y.strides[d] = x.sizes[from_axis], x.strides[from_axis]
    return y

# One axis as several, in row-major order.
cdef inline Box *split(Maker *maker, Box *x, int64_t axis, Integers *sizes) except NULL:
    more = sizes.count - 1
    y = _box(maker, x, x.rank + more)
    _take_axes(y, 0, x, 0, axis)
    _take_axes(y, axis + 1 + more, x, axis + 1, x.rank - axis - 1)
    stride = x.strides[axis]
    for k in range(more, -1, -1):
        y.sizes[axis + k], y.strides[axis + k] = sizes.at[k], stride
        stride *= sizes.at[k]
    return y

# NumPy's broadcasting: axes are prepended, and those of size 1 repeated.
cdef inline Box *broadcast(Maker *maker, Box *x, Integers *sizes) except NULL:
    more = sizes.count - x.rank
    cdef bint is_same = more == 0
    for d in range(x.rank if is_same else 0):
        is_same = is_same and x.sizes[d] == sizes.at[d]
    if is_same:
        return x
    y = _box(maker, x, sizes.count)
    for d in range(y.rank):
        y.sizes[d] = sizes.at[d]
        y.strides[d] = x.strides[d - more] if d >= more and x.sizes[d - more] == sizes.at[d] else 0
    return y

# A new axis before an axis, on which nothing depends.
cdef inline Box *expand(Maker *maker, Box *x, int64_t axis, int64_t size) except NULL:
    y = _box(maker, x, x.rank + 1)
    _take_axes(y, 0, x, 0, axis)
    _take_axes(y, axis + 1, x, axis, x.rank - axis)
    y.sizes[axis], y.strides[axis] = size, 0
    return y

# Each axis as two, of these sizes.
cdef inline Box *split_each(Maker *maker, Box *x, Integers *outer, Integers *inner) except NULL:
    y = _box(maker, x, 2 * x.rank)
    for d in range(x.rank):
        y.sizes[2 * d], y.strides[2 * d] = outer.at[d], x.strides[d] * inner.at[d]
        y.sizes[2 * d + 1], y.strides[2 * d + 1] = inner.at[d], x.strides[d]
    return y

# A new axis for each axis, before it, or behind it if `behind` is 1.
cdef inline Box *expand_each(Maker *maker, Box *x, Integers *sizes, int64_t behind) except NULL:
    y = _box(maker, x, 2 * x.rank)
    for d in range(x.rank):
        to_axis = 2 * d + 1 - behind
        more = 2 * d + behind
        y.sizes[to_axis], y.strides[to_axis] = x.sizes[d], x.strides[d]
        y.sizes[more], y.strides[more] = sizes.at[d], 0
    return y

# One axis, the first, in place of two of equal size.
cdef inline Box *diagonal(Maker *maker, Box *x, int64_t axis, int64_t second_axis) except NULL:
    y = _box(maker, x, x.rank - 1)
    _take_axes(y, 0, x, 0, second_axis)
    _take_axes(y, second_axis, x, second_axis + 1, y.rank - second_axis)
    y.strides[axis] += x.strides[second_axis]
    return y

# Windows of an axis: element i, j is ``x[step · i + apart · j]``; j is a new axis after i.
cdef inline Box *slide(Maker *maker, Box *x, int64_t axis, int64_t count, int64_t step, int64_t length, int64_t apart) except NULL:
    y = _box(maker, x, x.rank + 1)
    _take_axes(y, 0, x, 0, axis)
    _take_axes(y, axis + 2, x, axis + 1, x.rank - axis - 1)
    y.sizes[axis], y.strides[axis] = count, x.strides[axis] * step
    y.sizes[axis + 1], y.strides[axis + 1] = length, x.strides[axis] * apart
    return y

# What is read as one axis, in row-major order, if that takes one stride.
cdef inline Box *flat(Maker *maker, Box *x) except NULL:
    y = _box(maker, x, 1)
    y.sizes[0], y.strides[0] = 1, 0
    for d in range(x.rank - 1, -1, -1):
        if x.sizes[d] == 0:
            y.sizes[0] = 0
            return y
        if x.sizes[d] > 1:
            if y.sizes[0] == 1:
                y.strides[0] = x.strides[d]
            elif x.strides[d] != y.sizes[0] * y.strides[0]:
                _refuse()
            y.sizes[0] *= x.sizes[d]
    return y
