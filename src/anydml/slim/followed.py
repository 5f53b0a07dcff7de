"""A value of a graph, and what it is made of by movement alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.onnx.values import Sizes, Tensor
from anydml.slim.graph import Op
from anydml.slim.parts import Parts, parts_of


@dataclass(eq=False)
class Followed:
    """A value.

    Attributes:
        tensor: its type and sizes, and its elements where they are few and known; None where nothing is known.
        forms: what it is made of, the first by sources alone.
        op: the node that moves it; None where no movement makes it.
        output: the number of that node's output.
        data: the names of the values that it is moved from.
        is_constant: whether it is an initializer or a Constant.
    """

    tensor: Tensor | None
    forms: list[Value] = field(default_factory=list)
    op: Op | None = None
    output: int = 0
    data: tuple[str, ...] = ()
    is_constant: bool = False

    @cached_property
    def parts(self) -> list[Parts | None]:
        """Each form by parts; None where elements are looked up."""
        found: list[Parts | None] = []
        for form in self.forms:
            try:
                found.append(parts_of(form))
            except NotComposableError:
                found.append(None)
        return found

    @property
    def sizes(self) -> Sizes:
        """Its shape."""
        assert self.tensor is not None, "it is known"
        return self.tensor.shape

    @property
    def width(self) -> int:
        """Bytes of an element."""
        assert self.tensor is not None, "it is known"
        return self.tensor.dtype.itemsize

    @property
    def bytes(self) -> int:
        """Its size; 0 where that is not known."""
        return 0 if self.tensor is None else self.tensor.nbytes

    def is_like(self, other: Followed | None) -> bool:
        """Whether whoever does not move it can tell no difference."""
        if self is other or other is None or self.tensor is None or other.tensor is None:
            return self is other
        first, second = self.tensor, other.tensor
        known = first.array is None and second.array is None
        if first.array is not None and second.array is not None:
            known = bool(np.array_equal(first.array, second.array))
        is_same = (first.dtype, first.shape, self.is_constant) == (second.dtype, second.shape, other.is_constant)
        return known and is_same
