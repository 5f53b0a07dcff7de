"""Candidate sizes of blocks, and the requests for a box of a plain file with their estimated cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.files.addresses import Address
from anydml.stores.formats.chunk_grid import Box
from anydml.tensor import Layout

MAX_SPAN = 4 << 20
"""Maximum size in bytes of a request that also reads unneeded bytes."""


class Cost(NamedTuple):
    """Estimated seconds of a request and of each of its bytes; only ratios matter."""

    request: float
    byte: float


LOCAL_COST = Cost(4e-6, 0.3e-9)
"""Costs of local files."""

REMOTE_COST = Cost(1e-3, 5e-9)
"""Costs of objects at addresses, for which many requests run at once."""


MAX_CANDIDATES = 3000
"""Maximum number of candidate shapes."""

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def word(itemsize: int) -> np.dtype[Any]:
    """Return a dtype of this size whose elements NumPy copies quickly."""
    return np.dtype(_WORDS.get(itemsize, f"V{itemsize}"))


def size_of(box: Box) -> int:
    """Return the number of coordinates in a box."""
    return math.prod(high - low for low, high in box)


def offset_of(box: Box, strides: Sequence[int]) -> int:
    """Return the bytes before the first element of a box."""
    return sum(low * stride for (low, _), stride in zip(box, strides, strict=True))


def sizes_of(box: Box) -> tuple[int, ...]:
    """Return the sizes of a box, by axis."""
    return tuple(high - low for low, high in box)


def cost_at(path: str | Path) -> Cost:
    """Return the cost of requests to a path or address."""
    return REMOTE_COST if isinstance(path, Address) and not path.is_near else LOCAL_COST


def requests(
    layout: Layout, box: Box, is_read: bool = True, span: int = MAX_SPAN, cost: Cost = LOCAL_COST
) -> tuple[int, int, int]:
    """Return the fastest requests for a box, by an estimate.

    Args:
        layout: the layout of the array in the file, which is packed.
        box: the box that is read or written.
        is_read: whether requests are reads, which may contain unneeded bytes.
        span: the maximum size in bytes of a read with unneeded bytes.
        cost: the cost of requests.

    Returns:
        The number of outer axes along which requests repeat, the number of requests, and the bytes of each.
    """
    itemsize, strides, sizes = layout.element_size, layout.strides, sizes_of(box)
    best = math.inf, (0, 0, 0)
    for level in range(len(sizes) + 1):
        inner = zip(sizes[level:], strides[level:], strict=True)
        length = sum((n - 1) * step for n, step in inner) + itemsize
        count, run_bytes = math.prod(sizes[:level]), math.prod(sizes[level:]) * itemsize
        if length != run_bytes and (not is_read or length > span):
            continue
        spent = count * (cost.request + cost.byte * length + LOCAL_COST.byte * run_bytes * (length != run_bytes))
        if spent < best[0]:
            best = spent, (level, count, length)
    return best[1]


def seconds(layout: Layout, box: Box, is_read: bool = True, span: int = MAX_SPAN, cost: Cost = LOCAL_COST) -> float:
    """Return the estimated seconds for a box; arguments as of `requests`."""
    _, count, length = requests(layout, box, is_read, span, cost)
    return count * (cost.request + cost.byte * length)


def split_box(box: Box, itemsize: int, max_bytes: int) -> Iterator[Box]:
    """Yield parts of a box of at most `max_bytes` bytes, cut along its outer axes first."""
    sizes, part_bytes = sizes_of(box), size_of(box) * itemsize
    steps = [*sizes]
    for axis, size in enumerate(sizes):
        if part_bytes <= max_bytes or not size:
            break
        steps[axis] = max(1, size * max_bytes // part_bytes)
        part_bytes = part_bytes // size * steps[axis]
    ranges = [range(*span, step) if step else range(0) for span, step in zip(box, steps, strict=True)]
    for start in itertools.product(*ranges):
        yield tuple((low, min(end, low + step)) for low, (_, end), step in zip(start, box, steps, strict=True))


def common_box(x: Box, y: Box) -> Box:
    """Return the intersection of two boxes."""
    return tuple((max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(x, y, strict=True))


def inside_box(part: Box, box: Box) -> Any:
    """Return the NumPy index of a part in an array of a box."""
    return (*(slice(a - low, b - low) for (a, b), (low, _) in zip(part, box, strict=True)), ...)


def shapes(shape: Sequence[int], unit: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield candidate sizes of blocks, which are multiples of a unit, in ascending order."""
    base = 2
    while True:
        by = [_steps(max(1, size), step, base) for size, step in zip(shape, unit, strict=True)]
        if math.prod(len(steps) for steps in by) <= MAX_CANDIDATES:
            break
        base *= 2
    yield from itertools.product(*by)


def _steps(size: int, unit: int, base: int) -> list[int]:
    count, sizes, factor = -(-size // unit), [], 1
    while factor < count:
        sizes.append(factor * unit)
        factor *= base
    return [*sizes, count * unit]


def middle(shape: Sequence[int], block: Sequence[int]) -> Box:
    """Return a block from the middle of an array; no block is larger."""
    sizes = []
    for size, step in zip(shape, block, strict=True):
        low = size // 2 // step * step
        low = low if low + step <= size else max(0, low - step)
        sizes.append((low, min(size, low + step)))
    return tuple(sizes)


def block_count(shape: Sequence[int], block: Sequence[int]) -> int:
    """Return the number of blocks."""
    return math.prod(-(-size // step) for size, step in zip(shape, block, strict=True))


def boxes_of(shape: Sequence[int], block: Sequence[int], max_count: int | None = None) -> Iterator[Box]:
    """Yield the blocks in C order, or at most `max_count` of them, evenly spread."""
    count = block_count(shape, block)
    looked = count if max_count is None else min(max_count, count)
    return (box_at(shape, block, k * count // looked) for k in range(looked))


def halves(box: Box, unit: Sequence[int]) -> list[Box]:
    """Cut a box in two along the first axis with several units; return the box alone if there is no such axis."""
    for axis, ((low, high), step) in enumerate(zip(box, unit, strict=True)):
        middle = low + -(-(high - low) // step) // 2 * step
        if middle > low:
            return [(*box[:axis], part, *box[axis + 1 :]) for part in ((low, middle), (middle, high))]
    return [box]


def box_at(shape: Sequence[int], block: Sequence[int], box_number: int) -> Box:
    """Return a block by its number in C order."""
    box = []
    for size, step in zip(reversed(shape), reversed(block), strict=True):
        box_number, position = divmod(box_number, -(-size // step))
        box.append((position * step, min(size, (position + 1) * step)))
    return tuple(reversed(box))
