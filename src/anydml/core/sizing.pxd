# Sizes in operators' rules, compiled: lists of integers, and their arithmetic, as in `anydml.moves.sizing`.
cimport cython
from anydml.core.verbs cimport Box, Maker, Integers, _refuse, numbers
from libc.stdint cimport int64_t

cdef extern from *:
    bint overflows "__builtin_mul_overflow"(int64_t a, int64_t b, int64_t *product) noexcept

# X's sizes.
cdef inline Integers *sizes(Maker *maker, Box *x) noexcept:
    return <Integers *>x

# Whether x has no elements.
cdef inline bint is_empty(Maker *maker, const Box *x) noexcept:
    cdef int64_t d
    for d in range(x.rank):
        if x.sizes[d] == 0:
            return True
    return False

# A product of sizes, which fits 62 bits.
cdef inline int64_t times(int64_t a, int64_t b) except? -1:
    cdef int64_t result
    if overflows(a, b, &result) or not -(<int64_t>1 << 62) < result < <int64_t>1 << 62:
        _refuse()
    return result

# A quotient, rounded down.
cdef inline int64_t quotient(int64_t a, int64_t b) except? -1:
    cdef int64_t result
    if b == 1:
        return a
    if b == 0 or b == -1:
        _refuse()
    result = cython.cdiv(a, b)
    return result - (result * b != a and (a < 0) != (b < 0))


# The same number several times.
cdef inline Integers *repeated(Maker *maker, int64_t value, int64_t count) except NULL:
    result = numbers(maker, count)
    for k in range(count):
        result.at[k] = value
    return result

# Append numbers to a list.
cdef inline int append_to(list counts, Integers *numbers) except -1:
    for k in range(numbers.count):
        counts.append(numbers.at[k])
    return 0

# Sizes of a rule's own, up to six.
cdef inline Integers *ints(Maker *maker, int64_t count, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f) except NULL:
    result = numbers(maker, 6)
    result.at[0], result.at[1], result.at[2], result.at[3], result.at[4], result.at[5] = a, b, c, d, e, f
    result.count = count
    return result

# The number of x's elements. Those of all inputs together fit 62 bits.
cdef inline int64_t count(Maker *maker, Box *x) except -1:
    cdef int64_t result = 1
    cdef int64_t d
    for d in range(x.rank):
        result = times(result, x.sizes[d])
    times(result, maker.inputs.count)
    return result

# The number of elements of these sizes.
cdef inline int64_t volume(Maker *maker, Integers *sizes) except? -1:
    cdef int64_t result = 1
    for d in range(sizes.count):
        result = times(result, sizes.at[d])
    return result

# The sum of numbers that arguments had, each of which fits 32 bits.
cdef inline int64_t total(Maker *maker, Integers *terms) except? -1:
    cdef int64_t result = 0
    for k in range(terms.count):
        result += terms.at[k]
    return result

# The remainder of a number by a size; 0 if the size is 0.
cdef inline int64_t wrapped(Maker *maker, int64_t number, int64_t size) except? -1:
    if size == 0:
        return 0
    result = cython.cmod(number, size)
    return result + size if result < 0 else result

# The products of numbers, one by one.
cdef inline Integers *product(Maker *maker, Integers *a, Integers *b) except NULL:
    result = numbers(maker, a.count)
    for k in range(a.count):
        result.at[k] = times(a.at[k], b.at[k])
    return result

# The sums of sizes, one by one, each of which fits 62 bits, and of numbers of 32 bits.
cdef inline Integers *sum(Maker *maker, Integers *a, Integers *b) except NULL:
    result = numbers(maker, a.count)
    for k in range(a.count):
        result.at[k] = a.at[k] + b.at[k]
        if not 0 <= result.at[k] < <int64_t>1 << 62:
            _refuse()
    return result

# A 1 for each axis of x.
cdef inline Integers *ones(Maker *maker, Box *x) except NULL:
    return repeated(maker, 1, x.rank)

# X's sizes with another one along an axis.
cdef inline Integers *resized(Maker *maker, Box *x, int64_t axis, int64_t size) except NULL:
    result = numbers(maker, x.rank)
    for d in range(x.rank):
        result.at[d] = size if d == axis else x.sizes[d]
    return result

# X's sizes with one more before an axis.
cdef inline Integers *inserted(Maker *maker, Box *x, int64_t axis, int64_t size) except NULL:
    result = numbers(maker, x.rank + 1)
    for d in range(result.count):
        result.at[d] = size if d == axis else x.sizes[d - (d > axis)]
    return result
