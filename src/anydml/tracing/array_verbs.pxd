from anydml.moves.open_numbers cimport are_same, is_one
from anydml.tracing.traced_fields cimport TracedFields

cpdef permute(TracedFields x, axes)
cpdef reshape(TracedFields x, shape)
cpdef window(TracedFields x, starts, sizes, steps)
