from anydml.moves.open_numbers cimport larger, smaller
from anydml.tracing.traced_fields cimport TracedFields
from anydml.tracing.array_verbs cimport permute, reshape, window

cpdef indexed(x, key)
cdef list _key_items(TracedFields x, key)
cpdef tuple selected_box(x, key)
cdef tuple _selected_box(TracedFields x, list items)
cdef _select(TracedFields x, list items)
cpdef tuple slice_bounds(item, size)
cdef _from_the_start(bound, size, low)
