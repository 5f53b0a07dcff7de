"""Changes of leading axes, and which nodes compute the same with other ones.

The axes behind them stay as they are, and so do rows, sums and products along these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anydml.slim.computing import ELEMENTWISE, row_axes
from anydml.slim.following import Following
from anydml.slim.graph import Op
from anydml.slim.sizes import StandIns

Sizes = tuple[int, ...]


class Change(NamedTuple):
    """What is done to the leading axes of a value."""

    before: Sizes
    after: Sizes

    def of(self, sizes: Sequence[int]) -> Sizes | None:
        """The other shape of a value that begins with them; None where it does not."""
        count = len(self.before)
        return (*self.after, *sizes[count:]) if tuple(sizes[:count]) == self.before else None

    def of_constant(self, sizes: Sequence[int], rank: int) -> Sizes | None:
        """The other shape of a constant that is broadcast to a value of some rank; None where it has none."""
        count = len(self.before)
        if len(sizes) <= rank - count:
            return tuple(sizes)
        if len(sizes) == rank and math.prod(sizes[:count]) == 1:
            return ((1,) * len(self.after) + tuple(sizes[count:])) if rank else ()
        return self.of(sizes) if len(sizes) == rank else None


def change_of(old: Sequence[int], new: Sequence[int]) -> Change:
    """What a Reshape does: all but the last axes that stay."""
    same = next((k for k, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b), None)
    same = min(len(old), len(new)) if same is None else same
    return Change(tuple(old[: len(old) - same]), tuple(new[: len(new) - same]))


class Changing:
    """Nodes that can do with other leading axes."""

    def __init__(self, following: Following, stand_ins: StandIns) -> None:
        self._following, self._values, self._stand_ins = following, following.values, stand_ins

    def inputs(self, op: Op, change: Change) -> dict[int, Sizes] | None:
        """The other shapes of a node's inputs, by their places; None where the node cannot do without the old ones."""
        made = self._values.get(op.outputs[0]) if op.outputs else None
        if made is None or made.tensor is None or change.of(made.sizes) is None:
            return None
        values = [self._values.get(name) for name in (*op.inputs, *op.outputs) if name]
        if not all(value and value.tensor for value in values):
            return None
        if not op.inputs or not op.inputs[0] or not all(op.outputs):
            return None
        if not all(self._is_written(self._values[name].sizes, change) for name in op.outputs):
            return None
        if op.kind in ELEMENTWISE or op.kind == "MatMul":
            return self._broadcast(op, change, len(made.sizes))
        axes = row_axes(op, self._following)
        if axes is None or min(axes) < len(change.before):
            return None
        sizes = self._values[op.inputs[0]].sizes
        others = [self._values[name].sizes for name in op.inputs[1:] if name]
        rest = len(sizes) - len(change.before)
        if not self._is_written(sizes, change) or any(len(each) > rest for each in others):
            return None
        new = change.of(sizes)
        return None if new is None else {0: new}

    def _broadcast(self, op: Op, change: Change, rank: int) -> dict[int, Sizes] | None:
        """The same of nodes whose inputs are broadcast."""
        if op.kind == "MatMul" and not self._is_product(op, change, rank):
            return None
        found: dict[int, Sizes] = {}
        # Where rows lead, the matrix that they are multiplied by has none of their axes.
        count = 1 if op.kind == "MatMul" and rank - len(change.before) == 1 else None
        for k, name in enumerate(op.inputs[:count]):
            if name:
                value = self._values[name]
                new = change.of_constant(value.sizes, rank)
                if new is None or not (value.is_constant or len(value.sizes) < rank or change.of(value.sizes)):
                    return None
                if new != value.sizes:
                    found[k] = new
        is_read = any(not self._values[op.inputs[k]].is_constant for k in found)
        return found if is_read else None

    def is_free(self, op: Op, name: str, change: Change) -> bool:
        """Whether a node makes the same of a value without its leading axes of 1, which it broadcasts."""
        if not (op.kind in ELEMENTWISE or op.kind == "MatMul"):
            return False
        if math.prod(change.before) != 1 or len(change.after) >= len(change.before):
            return False
        rank = len(self._values[name].sizes)
        others = [self._values[each] for each in op.inputs if each != name and each in self._values]
        known = [each.sizes for each in others if each.tensor and (each.is_constant or not change.of(each.sizes))]
        least = 2 if op.kind == "MatMul" else 0
        return rank - len(change.before) + len(change.after) >= least and any(len(sizes) >= rank for sizes in known)

    def counted_from_the_end(self, op: Op, inputs: list[str]) -> Op:
        """A node with other inputs, whose axes are written so that they are the same whatever is in front of them."""
        axes = None if op.kind in ELEMENTWISE or op.kind == "MatMul" else row_axes(op, self._following)
        if axes is None:
            return op.replaced(inputs)
        last = [axis - len(self._values[op.inputs[0]].sizes) for axis in axes]
        if not op.kind.startswith("Reduce"):
            return op.replaced(inputs, axis=last[0])
        if len(inputs) > 1:
            inputs[1] = self._following.graph.constant(inputs[1] or "axes", np.array(last, np.int64))
            return op.replaced(inputs)
        return op.replaced(inputs, axes=last)

    def _is_written(self, sizes: Sequence[int], change: Change) -> bool:
        """Whether a value has another shape, and Reshape can be told both."""
        new = change.of(sizes)
        shape = self._stand_ins.shape
        return new is not None and shape(sizes, new) is not None and shape(new, sizes) is not None

    def _is_product(self, op: Op, change: Change, rank: int) -> bool:
        """Whether the matrices of a product, or the rows of its first factor, lie behind the leading axes."""
        behind = rank - len(change.before)
        first, second = (len(self._values[name].sizes) for name in op.inputs)
        if min(first, second) < 2 or len(change.after) + behind < 2:
            return False
        return behind > 1 or (behind == 1 and first == rank and second == 2)
