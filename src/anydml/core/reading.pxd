from anydml.core.arrays cimport View
from anydml.core.verbs cimport Box, Maker, Numbers
from libc.stdint cimport int64_t

# Sizes are known: conditions are decided.
cdef inline bint holds(bint condition) noexcept:
    return condition

# Whether a number is among others.
cdef inline bint has(const Numbers *given, int64_t number) noexcept:
    cdef int64_t k
    for k in range(given.count):
        if given.at[k] == number:
            return True
    return False

cdef inline int64_t abs(int64_t number) noexcept:
    return number if number > 0 else -number

cdef class Listed:
    cdef Numbers *shape
    cdef Numbers own
    cdef int64_t count
    cdef bint is_integer
    cdef object dtype
    cdef list values

cdef Listed listed(object given)
cdef object with_counts(object found, list counts)
cdef Box *read_one(Maker *make, object x) except? NULL
cdef Box *_box(Maker *make, const View *v) except NULL
cdef int read_all(Maker *make, list arrays) except -1
cdef int64_t integer(Maker *make, object field, object given) except? -1
cdef Numbers *integers_or_symbols(Maker *make, object field, object given) except NULL
cdef bint is_single(object given) except -1
cdef Numbers *one_or_more(Maker *make, object field, object given) except NULL
cdef bint are_equal(Numbers *a, Numbers *b) noexcept
cdef bint are_at_least(int64_t least, Numbers *given) noexcept
cdef int64_t sum(Numbers *given) noexcept
