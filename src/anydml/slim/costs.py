"""What movement costs, in bytes, nodes and products, as ONNX Runtime takes time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

CALL = 1 << 14
"""Bytes whose movement takes as long as it takes to call a node."""

ROW = 128
"""Bytes whose movement takes as long as it takes to begin another row that is copied."""

SLOW = {"Transpose": 4, "DepthToSpace": 2}
"""How many times as long that takes in operators that find rows by more than one axis."""

WORKED_OUT = CALL // 2
"""What it takes to work out shapes or indices when the model runs."""

SHAPES = frozenset(("Flatten", "Reshape", "Squeeze", "Unsqueeze"))
"""Operators that give elements another shape."""

FREE = SHAPES | {"Dropout", "Identity"}
"""Operators that copy nothing: runtimes only rename the buffer."""

GROWING = frozenset(("CenterCropPad", "Expand", "Pad", "Tile"))
"""Operators that read their input once and write a larger output."""

LEAST_ROWS = 16
"""Fewest rows of a product in another order: kernels compute as many columns at once."""

PACKED = 2
"""How many times its rows the depth of a product by heads may be: runtimes pack its matrices in each run."""


class Cost(NamedTuple):
    """A cost; costs are compared by weight, then by nodes.

    Attributes:
        weight: bytes that are read and written, `ROW` or more for each row, and `CALL` for each node and product.
        nodes: that move.
        moved: bytes that are read and written.
        products: that runtimes reshape. A product and a row that is added to it are computed by one Gemm, which takes
            matrices: those of more axes get Reshapes on both sides. These two count as much as one in the model, which
            a runtime that does without them runs as well.
    """

    weight: int
    nodes: int
    moved: int
    products: int = 0

    @classmethod
    def sum(cls, costs: Iterable[Cost]) -> Cost:
        """Return the sum of some costs."""
        return cls(*map(sum, zip(NOTHING, *costs, strict=True)))


NOTHING = Cost(0, 0, 0)

Sizes = Sequence[int]


def movement(kind: str, sources: Sequence[Sizes], results: Sequence[Sizes], width: int, numbers: Any = None) -> Cost:
    """The cost of a node that moves.

    Args:
        kind: the operator.
        sources: the shapes of what it reads.
        results: those of what it makes.
        width: bytes of an element.
        numbers: the axes of a Transpose; how far apart elements are along each axis, of a Slice or Split; the axis of
            a Gather.
    """
    count = sum(map(math.prod, results))
    moved = 0 if kind in FREE else width * (count + (math.prod(sources[0]) if kind in GROWING else count))
    rows = sum(_rows(kind, sources[0], sizes, numbers) for sizes in results)
    return Cost(moved + rows * ROW * SLOW.get(kind, 1) + CALL, 1, moved)


def is_quick(rows: int, depth: int, is_transposed: bool) -> bool:
    """Whether a product takes no longer if it is transposed, or else if it is computed by heads of so many rows."""
    if is_transposed:
        # The rows become columns, which are computed in blocks, of which little may be idle.
        return -rows % LEAST_ROWS * LEAST_ROWS <= rows
    return rows >= LEAST_ROWS and PACKED * rows >= depth


def _rows(kind: str, source: Sizes, sizes: Sizes, numbers: Any) -> int:
    """Rows that a node copies one by one."""
    count = math.prod(sizes)
    if kind == "Transpose":
        return _transposed_rows(source, numbers)
    if kind == "Gather":
        return count // math.prod(source[numbers + 1 :])
    if kind in ("Slice", "Split"):
        # From the end, up to the first axis of which not all is taken.
        row = 1
        for size, taken, by in zip(source[::-1], sizes[::-1], numbers[::-1], strict=True):
            row *= taken if by == 1 else 1
            if size != taken:
                break
        return count // row
    return count if kind == "DepthToSpace" else 0


def _transposed_rows(sizes: Sizes, axes: Sizes) -> int:
    """Rows that a Transpose copies, elements if the last axis is another, none if one axis changes its place."""
    moving = [axis for axis in axes if sizes[axis] != 1]
    heads = _heads(moving)
    if not moving or heads[-1] == max(heads):
        return math.prod(sizes[axis] for axis in moving[: moving.index(heads[-1])]) if len(heads) > 1 else 0
    # It is moved by blocks. Axes of 1 count here: where one moves, too, elements are copied one by one.
    heads = _heads(axes)
    is_one = any([k for k in heads if k != one] == sorted({*heads} - {one}) for one in heads)
    return 0 if is_one else math.prod(sizes)


def _heads(axes: Sizes) -> list[int]:
    """The first axes of those that stay together."""
    order = sorted(axes)
    places = [order.index(axis) for axis in axes]
    return [axis for k, axis in enumerate(axes) if not k or places[k] != places[k - 1] + 1]
