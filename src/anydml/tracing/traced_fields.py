"""Fields of a traced array."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from anydml.moves.value import Value


class TracedFields:
    """The fields of a traced array.

    Attributes:
        trace: the trace that it belongs to.
        value: the sources of its elements.
        element: the NumPy dtype.
        like: number of an argument of the same dtype; None if unknown.
    """

    __slots__ = ("element", "like", "trace", "value")

    def __init__(self, trace: Any, value: Value, dtype: np.dtype[Any], like: int | None = None) -> None:
        self.trace = trace
        self.value = value
        self.element = dtype
        self.like = like

    def new_array(self, value: Value) -> Self:
        """Create an array of the same trace and dtype."""
        array: Self = self.trace.kind(self.trace, value, self.element, self.like)
        return array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, whose sizes may be open."""
        return self.value.sizes

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.value.sizes)
