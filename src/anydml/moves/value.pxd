from anydml.moves.open_numbers cimport has_zero, are_same, is_zero, is_one, value_of

cdef class Value:
    cdef readonly object sizes, element_size, access
    cdef object _pieces
    cpdef Value permute(self, axes)
    cpdef Value slice(self, starts, sizes, steps)
    cdef Value _strided(self, axis, start, size, step)
    cdef Value _flipped(self, axis)

cdef Value _viewed(sizes, element_size, access, offset, strides)
cdef _whole_piece(sizes, source, axis=*, place=*)
cdef Value _value_of_pieces(sizes, element_size, pieces)
