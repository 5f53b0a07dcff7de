"""Batches: symbolic sizes along which all elements are computed alike, so that one place stands for all.

Where an axis has ``c·N`` elements, N counts outermost: place n of the batch has c of them. A term keeps the batch if it
depends at place n on its inputs at place n alone, in the same way for all n. Fingerprints of such terms leave N out.
All others are functions of their whole inputs, which fingerprints of one place identify, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.proving.orders import Order
from anydml.proving.sizes import Polynomial, Size
from anydml.proving.terms import Term


class Batch:
    """The size of a batch.

    Args:
        name: the name of the batch; empty if all sizes are numbers.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name

    def inner(self, sizes: Sequence[Size]) -> list[int] | None:
        """Return the sizes of one element of the batch; None if one is not a number, or several contain the batch."""
        inner_sizes = [self._size_per_element(size) for size in sizes]
        known_sizes = [size for size in inner_sizes if size is not None]
        is_once = sum(isinstance(size, Polynomial) for size in sizes) <= 1
        return known_sizes if is_once and len(known_sizes) == len(inner_sizes) else None

    def keeps(self, term: Term) -> bool:
        """Whether a term keeps the batch; at most one size of the term may contain the batch."""
        if not self.name:
            return True
        shapes = [term.shape for term in term.inputs if term is not None]
        if term.shape is None or any(shape is None or self.inner(shape) is None for shape in shapes):
            return False
        known_shapes, detail = [shape for shape in shapes if shape is not None], term.detail
        operator, is_node, _ = term.kind.partition("@")
        if operator == "moved":
            return self._keeps_order(known_shapes[0], detail[0], term.shape)
        if operator == "slice":
            return self._axis(known_shapes[0]) not in {axis for axis, *_ in detail}
        if operator == "concat":
            return {self._axis(shape) for shape in known_shapes} == {self._axis(term.shape)} != {detail}
        if operator == "taken":
            return self._axis(known_shapes[0]) != detail and self._axis(known_shapes[1]) is None
        if operator == "dot":
            is_added = any(self._axis(shape) in detail for shape in known_shapes)
            return not is_added and all(a in (b, 1) or b == 1 for a, b in zip(*known_shapes, strict=True))
        if is_node:
            return operator in ELEMENTWISE_OPERATORS and _can_broadcast(known_shapes, term.shape)
        if operator == "expand":
            return _can_broadcast(known_shapes, term.shape)
        if operator.startswith("Reduce") or operator in _NORMALIZED:
            return self._axis(known_shapes[0]) not in detail[0] and all(
                self._axis(shape) is None for shape in known_shapes[1:]
            )
        return False

    def _size_per_element(self, size: Size) -> int | None:
        """Return a size for one element of the batch; None if the size is not a multiple of the batch."""
        if isinstance(size, int):
            return size
        (names, count), *other_parts = size.parts
        return count if not other_parts and names == (self.name,) and count > 0 else None

    def _axis(self, sizes: Sequence[Size]) -> int | None:
        """Return the axis whose size contains the batch; None if there is none."""
        return next((axis for axis, size in enumerate(sizes) if isinstance(size, Polynomial)), None)

    def _distance(self, sizes: Sequence[Size]) -> int | None:
        """Return the distance in elements between places of the batch; None if no size contains the batch."""
        axis, inner = self._axis(sizes), self.inner(sizes)
        assert inner is not None, "it has been left out"
        return None if axis is None else math.prod(inner[axis:])

    def _keeps_order(self, sizes: Sequence[Size], order: Order | None, shape: Sequence[Size]) -> bool:
        """Whether the batch stays outermost in its axis when elements are moved."""
        if order is None:
            return self._distance(sizes) == self._distance(shape)
        moved = [size for _, size in order.entries()]
        if self.inner(order.factors) is None or self.inner(moved) is None:
            return False
        pairs = (sizes, order.factors), (moved, shape)
        return all(self._distance(x) == self._distance(y) for x, y in pairs)

    def order(self, order: Order) -> Order:
        """Return the order in which elements are moved within one element of a batch that is kept."""
        factors, repeats = self.inner(order.factors), self.inner(order.repeats)
        assert factors is not None, "it is kept"
        assert repeats is not None, "it is kept"
        return Order(tuple(factors), order.perm, tuple(repeats))


_NORMALIZED = frozenset(("LayerNormalization", "LogSoftmax", "Softmax"))


def _can_broadcast(shapes: Sequence[Sequence[Size]], shape: Sequence[Size]) -> bool:
    """Whether shapes broadcast to another one."""
    return all(a in (b, 1) for sizes in shapes for a, b in zip(sizes[::-1], shape[::-1], strict=False))
