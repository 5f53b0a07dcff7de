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
cdef inline void begin_call(Maker *make, object out, list parts, bint may_update) noexcept:
    c = make.call
    c.total = c.count = c.lookup_count = c.is_in_place = c.is_unfit = c.refused = 0
    c.has_out = out is not None and parts is None
    make.next, make.left, make.blocks = make.first_room, ROOM, NULL
    make.only_result = make.first = NULL
    make.zeros = NULL
    make.out = NULL if out is None else <PyObject *>out
    make.parts = NULL if parts is None else <PyObject *>parts
    make.runs = make.count = make.item_size = 0
    make.inputs.count = 1
    make.is_trial = False
    make.may_update = may_update

cdef extern from *:
    """
    static int anydml_raise_pending(void) { return -1; }
    """
    int raise_pending "anydml_raise_pending"() except -1  # an error that is set already

# Run the pending moves; what that raises stays set.
cdef inline void finish_moves(Call *c) noexcept:
    (<int (*)(Call *) noexcept>run_moves)(c)

cdef list items_of(object arrays)
cdef int runs_again(Maker *make) except -1
cdef object end_call(Maker *make, int done)
cdef Box *result(Maker *make, Integers *sizes, Integers *write_sizes) except NULL
cdef Box *result_from(Maker *make, Box *x) except NULL
cdef int _begin_result(Maker *make, int rank, const int64_t *n) except -1
cdef bint _overlaps_no_input(const Maker *make) noexcept
cdef object _next_output(Maker *make, int rank, const int64_t *n)
cdef int store(Maker *make, Box *x) except -1
cdef int count_up(Maker *make, Box *to, Item start, Item delta) except -1
cdef int fill(Maker *make, Box *to, Item value) except -1

# Integers that are computed are left to Python.
cdef inline Box *constant(Maker *make) except NULL:
    _refuse()
    return NULL

# Write a view to a place of the same sizes.
cdef inline int copy(Maker *make, Box *to, Box *x) except -1:
    if make.is_trial:
        return 0
    if to.lookups or x.lookups:
        return copy_looked_up(make, to, x)
    return add_move(make.call, to.data, x.data, to.rank, x.sizes, to.strides, x.strides)
