from anydml.core.calls cimport Call
from anydml.core.ranges cimport Range
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

cdef struct Numbers:
    int64_t *at
    int64_t count

cdef struct Box:  # a view, or a place; begins as its sizes do
    int64_t *n  # sizes
    int64_t rank
    char *data
    int64_t *s  # strides in bytes

cdef struct Boxes:
    Box **at
    int64_t count

cdef struct Shapes:
    Numbers **at
    int64_t count

cdef struct Maker:
    Call call[1]
    Boxes inputs
    int64_t *next      # the first free number,
    int64_t left       # and how many there are
    int64_t *blocks    # more memory: each block's first number is the address of the one before
    PyObject *out      # the caller's array, or list of arrays; NULL if results are new
    PyObject *parts    # the list of results; NULL if there is one
    PyObject *made     # the only result, which the call owns
    Range *written     # by the arrays of `out`
    int64_t runs       # of the rule
    int64_t count      # of results in this run
    bint is_trial      # whether this run only looks at `out`
    int64_t first[512]

cdef object REFUSED

# Memory for numbers, as long as the call runs.
cdef inline int64_t *room(Maker *make, int64_t count) except NULL:
    cdef int64_t *found = make.next
    if count > make.left:
        return _more_room(make, count)
    make.next += count
    make.left -= count
    return found

# A box at x's address, whose sizes and strides are still to be set.
cdef inline Box *_box(Maker *make, const Box *x, int64_t rank) except NULL:
    cdef Box *y = <Box *>room(make, sizeof(Box) // 8 + 2 * rank)
    y.data, y.rank = x.data, rank
    y.n = <int64_t *>(y + 1)
    y.s = y.n + rank
    return y

# Numbers still to be set.
cdef inline Numbers *numbers(Maker *make, int64_t count) except NULL:
    cdef Numbers *found = <Numbers *>room(make, sizeof(Numbers) // 8 + count)
    found.at, found.count = <int64_t *>(found + 1), count
    return found

# X's sizes.
cdef inline Numbers *sizes(Maker *make, Box *x) noexcept:
    return <Numbers *>x

# Begin a call: its `out`, or None, and the list of its results, or None if there is one.
cdef inline void begin_call(Maker *make, object out, list parts) noexcept:
    make.next, make.left, make.blocks, make.made = make.first, ROOM, NULL, NULL
    make.out = NULL if out is None else <PyObject *>out
    make.parts = NULL if parts is None else <PyObject *>parts
    make.runs = make.count = 0
    make.inputs.count = 1
    make.is_trial = False

cdef list held(object given)
cdef int again(Maker *make) except -1
cdef object end_call(Maker *make, int done)
cdef int64_t *_more_room(Maker *make, int64_t count) except NULL
cdef Numbers *repeated(Maker *make, int64_t value, int64_t count) except NULL
cdef int append_to(list counts, Numbers *numbers) except -1

cdef Box *cut(Maker *make, Box *x, int64_t axis, int64_t start, int64_t size, int64_t step) except NULL
cdef Box *window(Maker *make, Box *x, Numbers *first, Numbers *count, Numbers *step) except NULL
cdef Box *at(Maker *make, Box *x, int64_t axis, int64_t k) except NULL
cdef Box *permute(Maker *make, Box *x, Numbers *axes) except NULL
cdef Box *split(Maker *make, Box *x, int64_t axis, Numbers *sizes) except NULL
cdef Box *broadcast(Maker *make, Box *x, Numbers *sizes) except NULL
cdef int64_t count(Maker *make, Box *x) except -1
cdef Numbers *ints(Maker *make, int64_t a) except NULL
cdef Numbers *resized(Maker *make, Box *x, int64_t axis, int64_t size) except NULL
cdef Numbers *inserted(Maker *make, Box *x, int64_t axis, int64_t size) except NULL
cdef Box *result(Maker *make, Numbers *sizes) except NULL
cdef int _begin_result(Maker *make, int rank, const int64_t *n) except -1
cdef int _check_apart(Maker *make) except -1
cdef object _next_output(Maker *make, int rank, const int64_t *n)
cdef int copy(Maker *make, Box *to, Box *x) except -1
cdef int store(Maker *make, Box *x) except -1
