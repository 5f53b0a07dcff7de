from anydml.tracing.traced_fields cimport TracedFields
from anydml.tracing.array_verbs cimport permute

cpdef transpose(TracedFields x, axes=*)
