from anydml.core.lookup_verbs cimport copy_looked_up
from anydml.core.simplifying cimport Call, add_move, run_moves
from anydml.core.verbs cimport ROOM, Box, Item, Maker, Integers, _refuse
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

cdef extern from "numbers.h" nogil:
    ctypedef struct Plan "anydml_numbers":
        char *to
        const char *start
        const char *delta
        int type

# Begin a call: its `out`, or None, and the list of its results, or None if there is one.
cdef inline void begin_call(Maker *maker, object out, list parts, bint may_update) noexcept:
    c = maker.call
    c.total = c.count = c.lookup_count = c.is_in_place = c.is_unfit = c.refused = 0
    c.has_out = out is not None and parts is None
    maker.next, maker.left, maker.blocks = maker.first_room, ROOM, NULL
    maker.only_result = maker.first = NULL
    maker.zeros = NULL
    maker.out = NULL if out is None else <PyObject *>out
    maker.parts = NULL if parts is None else <PyObject *>parts
    maker.runs = maker.count = maker.item_size = 0
    maker.inputs.count = 1
    maker.is_trial = False
    maker.may_update = may_update

cdef extern from *:
    """
    static int anydml_raise_pending(void) { return -1; }
    """
    int raise_pending "anydml_raise_pending"() except -1  # an error that is set already

# Run the pending moves; what that raises stays set.
cdef inline void finish_moves(Call *c) noexcept:
    (<int (*)(Call *) noexcept>run_moves)(c)

cdef list items_of(object arrays)
cdef int runs_again(Maker *maker) except -1
cdef object end_call(Maker *maker, int done)
cdef Box *result(Maker *maker, Integers *sizes, Integers *write_sizes) except NULL
cdef Box *result_from(Maker *maker, Box *x) except NULL
cdef int _begin_result(Maker *maker, int rank, const int64_t *n) except -1
cdef bint _overlaps_no_input(const Maker *maker) noexcept
cdef object _next_output(Maker *maker, int rank, const int64_t *n)
cdef int store(Maker *maker, Box *x) except -1
cdef int count_up(Maker *maker, Box *to, Item start, Item delta) except -1
cdef int fill(Maker *maker, Box *to, Item value) except -1

# Integers that are computed are left to Python.
cdef inline Box *constant(Maker *maker) except NULL:
    _refuse()
    return NULL

# Write a view to a place of the same sizes.
cdef inline int copy(Maker *maker, Box *to, Box *x) except -1:
    if maker.is_trial:
        return 0
    if to.lookups or x.lookups:
        return copy_looked_up(maker, to, x)
    return add_move(maker.call, to.data, x.data, to.rank, x.sizes, to.strides, x.strides)
