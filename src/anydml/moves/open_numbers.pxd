cpdef bint are_same(x, y) except -1
cpdef bint is_one(size) except -1
cpdef bint is_zero(size) except -1
cpdef bint has_zero(sizes) except -1
cpdef value_of(number)
cpdef larger(x, y)
cpdef smaller(x, y)
