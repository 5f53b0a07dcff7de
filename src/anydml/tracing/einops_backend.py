"""einops on traced arrays: a backend, which einops finds by the type of its first tensor.

einops looks for it among the subclasses of its `AbstractBackend` whose framework is imported: so this module has only
to be imported before a function is traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einops._backends import AbstractBackend

from anydml.tracing import axes, joins, repeating, shaping
from anydml.tracing.refusing import named, refused
from anydml.tracing.trace import TracedArray


class TracedBackend(AbstractBackend):  # type: ignore[misc]  # einops has no types here
    """What einops asks of arrays that are not there yet."""

    framework_name = "anydml.tracing"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether it is traced."""
        return isinstance(tensor, TracedArray)

    def shape(self, x: TracedArray) -> Sequence[int]:
        """Open sizes are not hashed: einops works without its cache then."""
        return [*x.shape]

    def reshape(self, x: TracedArray, shape: Sequence[int]) -> TracedArray:
        """In row-major order."""
        with named("einops"):
            return axes.reshape(x, tuple(shape))

    def transpose(self, x: TracedArray, axes: Sequence[int]) -> TracedArray:
        """Axes in another order."""
        return shaping.permuted(x, tuple(axes))

    def reduce(self, x: TracedArray, operation: str, axes: Sequence[int]) -> TracedArray:
        """Never: it computes."""
        raise refused(f"einops' reduction {operation} of {x!r}")

    def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> TracedArray:
        """A list of arrays as one."""
        trace = next(each.trace for each in tensors if isinstance(each, TracedArray))
        with named("einops"):
            return joins.stack([*map(trace.array, tensors)])

    def add_axis(self, x: TracedArray, new_position: int) -> TracedArray:
        """A new axis of 1."""
        return axes.expand_dims(x, new_position)

    def tile(self, x: TracedArray, repeats: Sequence[int]) -> TracedArray:
        """Repeated along each axis."""
        return repeating.tile(x, repeats)

    def concat(self, tensors: Sequence[Any], axis: int) -> TracedArray:
        """One after the other."""
        trace = next(each.trace for each in tensors if isinstance(each, TracedArray))
        with named("einops"):
            return shaping.joined([*map(trace.array, tensors)], axis)

    def is_float_type(self, x: TracedArray) -> bool:
        """Whether elements are floating-point numbers."""
        return x.element.kind == "f"

    def einsum(self, pattern: str, *x: Any) -> TracedArray:
        """Never: it computes."""
        raise refused(f"einops.einsum {pattern!r}")
