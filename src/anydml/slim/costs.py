"""The cost of movement in bytes, nodes and products, weighted by the time that ONNX Runtime takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

CALL_BYTES = 1 << 14
"""Bytes that are moved in the time of one node call."""

ROW_BYTES = 128
"""Bytes that are moved in the time it takes to start copying a row."""

ROW_FACTORS = {"Transpose": 4, "DepthToSpace": 2}
"""Multiples of `ROW_BYTES` for operators that compute the address of a row from several axes."""

SKIP_BYTES = 32
"""Bytes that are moved in the extra time of SkipLayerNormalization, per element, over Add and LayerNormalization:
about 4 ns in ONNX Runtime 1.32, which computes it number by number."""

INDEX_ARITHMETIC = CALL_BYTES // 2
"""Cost of shapes or indices that are computed when the model runs."""

SHAPE_OPERATORS = frozenset(("Flatten", "Reshape", "Squeeze", "Unsqueeze"))
"""Operators that only change the shape."""

COPY_FREE_OPERATORS = SHAPE_OPERATORS | {"Dropout", "Identity"}
"""Operators that copy nothing, because runtimes reuse the buffer."""

GROWING_OPERATORS = frozenset(("CenterCropPad", "Expand", "Pad", "Tile"))
"""Operators that read their input once and write a larger output."""

COLUMN_BLOCK = 16
"""Columns of a product that kernels compute at once: the minimum number of rows of a transposed or batched product."""

MAX_DEPTH_RATIO = 2
"""Largest ratio of depth to rows of a batched product: runtimes pack its matrices in every run."""


class Cost(NamedTuple):
    """A cost; costs are compared by weight, then by nodes.

    Attributes:
        weight: bytes that are read and written, at least `ROW_BYTES` per row, `CALL_BYTES` per node and per reshaped
            product, and `SKIP_BYTES` per element of sums that runtimes fuse with a LayerNormalization.
        nodes: movement nodes.
        bytes_moved: bytes that are read and written.
        products: products that runtimes reshape. A runtime fuses a product and the Add of a bias to a Gemm, which
            takes matrices, so it inserts a Reshape on either side if there are more axes. The pair counts as one,
            because Reshapes in the model replace those of the runtime.
    """

    weight: int
    nodes: int
    bytes_moved: int
    products: int = 0

    @classmethod
    def sum(cls, costs: Iterable[Cost]) -> Cost:
        """Return the sum of costs."""
        return cls(*map(sum, zip(NO_COST, *costs, strict=True)))


NO_COST = Cost(0, 0, 0)

Sizes = Sequence[int]


def movement(op_type: str, sources: Sequence[Sizes], results: Sequence[Sizes], width: int, detail: Any = None) -> Cost:
    """Return the cost of a movement node.

    Args:
        op_type: the operator.
        sources: shapes of the tensors that it moves.
        results: shapes of its outputs.
        width: bytes per element.
        detail: the permutation of a Transpose; the step along each axis of a Slice or Split; the axis of a Gather.
    """
    count = sum(map(math.prod, results))
    elements_read = math.prod(sources[0]) if op_type in GROWING_OPERATORS else count
    bytes_moved = 0 if op_type in COPY_FREE_OPERATORS else width * (count + elements_read)
    rows = sum(_rows(op_type, sources[0], sizes, detail) for sizes in results)
    return Cost(bytes_moved + rows * ROW_BYTES * ROW_FACTORS.get(op_type, 1) + CALL_BYTES, 1, bytes_moved)


def is_fast_transposed(rows: int) -> bool:
    """Whether a product is as fast when it is transposed: rows become columns, which must nearly fill blocks."""
    return -rows % COLUMN_BLOCK * COLUMN_BLOCK <= rows


def is_fast_batched(rows: int, depth: int) -> bool:
    """Whether a product is as fast when computed as a batch of products with fewer columns."""
    return rows >= COLUMN_BLOCK and MAX_DEPTH_RATIO * rows >= depth


def _rows(op_type: str, source: Sizes, sizes: Sizes, detail: Any) -> int:
    """Return the number of rows that a node copies one by one."""
    count = math.prod(sizes)
    if op_type == "Transpose":
        return _transposed_rows(source, detail)
    if op_type == "Gather":
        return count // math.prod(source[detail + 1 :])
    if op_type in ("Slice", "Split"):
        # A row spans the last axes, up to and including the first one that is not whole.
        row = 1
        for size, result_size, step in zip(source[::-1], sizes[::-1], detail[::-1], strict=True):
            row *= result_size if step == 1 else 1
            if size != result_size:
                break
        return count // row
    return count if op_type == "DepthToSpace" else 0


def _transposed_rows(sizes: Sizes, perm: Sizes) -> int:
    """Return the number of rows of a Transpose: elements if the last axis changes, none if a single axis moves."""
    moving = [axis for axis in perm if sizes[axis] != 1]
    firsts = _group_starts(moving)
    if not moving or firsts[-1] == max(firsts):
        return math.prod(sizes[axis] for axis in moving[: moving.index(firsts[-1])]) if len(firsts) > 1 else 0
    # A single moving axis is copied in blocks, but only if no axis of size 1 moves.
    firsts = _group_starts(perm)
    is_single = any([k for k in firsts if k != unit] == sorted({*firsts} - {unit}) for unit in firsts)
    return 0 if is_single else math.prod(sizes)


def _group_starts(perm: Sizes) -> list[int]:
    """Return the first axis of each group of axes that stay adjacent."""
    order = sorted(perm)
    places = [order.index(axis) for axis in perm]
    return [axis for k, axis in enumerate(perm) if not k or places[k] != places[k - 1] + 1]
