"""The einops backend of traced arrays.

einops finds a backend by the type of the first tensor, so importing this module before a function is traced suffices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einops._backends import AbstractBackend, _type2backend

from anydml.tracing import array_verbs, axes, join_split
from anydml.tracing.assignable_arrays import ASSIGNABLE_CLASSES, note_sharing
from anydml.tracing.constants import trace_of
from anydml.tracing.refusing import named_errors, refusal
from anydml.tracing.trace import TracedArray
from anydml.tracing.traced_ndarray import TracedNdarray
from anydml.tracing.traced_tensor import TracedTensor


class TracedBackend(AbstractBackend):  # type: ignore[misc]  # einops has no types here
    """einops' operations on traced arrays."""

    framework_name = "anydml.tracing"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether the tensor is traced."""
        return isinstance(tensor, TracedArray)

    def shape(self, x: TracedArray) -> Sequence[int]:
        """Return the shape, as a list: open sizes must not be hashed, so einops bypasses its cache."""
        return [*x.shape]

    def reshape(self, x: TracedArray, shape: Sequence[int]) -> TracedArray:
        """Reshape in row-major order."""
        with named_errors("einops"):
            return _track(x, axes.reshape(x, tuple(shape)))

    def transpose(self, x: TracedArray, axes: Sequence[int]) -> TracedArray:
        """Permute axes."""
        return _track(x, array_verbs.permute(x, tuple(axes)))

    def reduce(self, x: TracedArray, operation: str, axes: Sequence[int]) -> TracedArray:
        """Refuse: reductions and products compute."""
        raise refusal(f"einops' reduction {operation} of {x!r}")

    def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> TracedArray:
        """Stack arrays along a new first axis."""
        with named_errors("einops"):
            return join_split.stack([*map(trace_of(tensors).array, tensors)])

    def add_axis(self, x: TracedArray, new_position: int) -> TracedArray:
        """Insert an axis of size 1."""
        return _track(x, axes.expand_dims(x, new_position))

    def tile(self, x: TracedArray, repeats: Sequence[int]) -> TracedArray:
        """Repeat along each axis."""
        return join_split.tile(x, repeats)

    def concat(self, tensors: Sequence[Any], axis: int) -> TracedArray:
        """Concatenate along an axis."""
        with named_errors("einops"):
            return array_verbs.join_native([*map(trace_of(tensors).array, tensors)], axis)

    def is_float_type(self, x: TracedArray) -> bool:
        """Whether the dtype is floating-point."""
        return x.element.kind == "f"

    def einsum(self, pattern: str, *x: Any) -> TracedArray:
        """Refuse: reductions and products compute."""
        raise refusal(f"einops.einsum {pattern!r}")


def _track(x: TracedArray, result: TracedArray) -> TracedArray:
    """Return a result that may share x's memory."""
    return note_sharing(x.trace, "einops", (x,), {}, result) if x.trace.is_assigning else result


# The backends of NumPy and PyTorch would accept traced arrays, which pass for arrays of these libraries.
_type2backend.update(dict.fromkeys((TracedNdarray, TracedTensor, *ASSIGNABLE_CLASSES), TracedBackend()))
