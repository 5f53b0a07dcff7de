"""Boxes of arrays that lie in a file in row-major order: read and written by requests as long as they can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anydml.stores.plain_file import PlainFile
from anydml.stores.regions import Box

Array = np.ndarray[Any, np.dtype[Any]]

MOST_SPAN = 4 << 20
"""Bytes of a request that reads what nobody asked for, too."""

SECONDS_A_REQUEST, SECONDS_A_BYTE = 4e-6, 0.3e-9
"""What requests cost, about; only the ratio matters."""

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def word(itemsize: int) -> np.dtype[Any]:
    """A dtype of this size that is copied quickly, and not looked at."""
    return np.dtype(_WORDS.get(itemsize, f"V{itemsize}"))


def packed(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Byte strides in row-major order."""
    return tuple(math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape)))


def requests(
    shape: Sequence[int], itemsize: int, sizes: Sequence[int], is_read: bool = True, span: int = MOST_SPAN
) -> tuple[int, int, int]:
    """How a box is read or written best.

    Args:
        shape: of the array in the file.
        itemsize: bytes of an element.
        sizes: of the box, by axis.
        is_read: whether a request may have bytes between those of the box.
        span: bytes of such a request at most.

    Returns:
        The number of axes over which requests are repeated, how many requests that is, and bytes of each.
    """
    strides, best = packed(shape, itemsize), (math.inf, (0, 0, 0))
    for level in range(len(sizes) + 1):
        inner = zip(sizes[level:], strides[level:], strict=True)
        length = sum((n - 1) * step for n, step in inner) + itemsize
        count, wanted = math.prod(sizes[:level]), math.prod(sizes[level:]) * itemsize
        if length != wanted and (not is_read or length > span):
            continue
        cost = count * (SECONDS_A_REQUEST + SECONDS_A_BYTE * (length + wanted * (length != wanted)))
        if cost < best[0]:
            best = cost, (level, count, length)
    return best[1]


def seconds(
    shape: Sequence[int], itemsize: int, sizes: Sequence[int], is_read: bool = True, span: int = MOST_SPAN
) -> float:
    """How long a box takes, about; as `requests`."""
    _, count, length = requests(shape, itemsize, sizes, is_read, span)
    return count * (SECONDS_A_REQUEST + SECONDS_A_BYTE * length)


def parts(sizes: Sequence[int], nbytes: int, most: int) -> Iterator[Box]:
    """A box as parts of at most so many bytes, cut along its outer axes first."""
    steps, left = [*sizes], nbytes
    for axis, size in enumerate(sizes):
        if left <= most or not size:
            break
        steps[axis] = max(1, size * most // left)
        left = left // size * steps[axis]
    ranges = [range(0, size, step) if size else range(0) for size, step in zip(sizes, steps, strict=True)]
    for start in itertools.product(*ranges):
        yield tuple((low, min(size, low + step)) for low, size, step in zip(start, sizes, steps, strict=True))


def read_box(file: PlainFile, base: int, shape: Sequence[int], box: Box, out: Array, span: int = MOST_SPAN) -> int:
    """Read a box; gives how many bytes were read.

    Args:
        file: where the array lies.
        base: bytes before its first element.
        shape: of the array.
        box: in its coordinates.
        out: of the box's shape, of any strides.
        span: as `requests` has it.
    """
    sizes, size = [high - low for low, high in box], out.itemsize
    level, count, length = requests(shape, size, sizes, True, span)
    if 0 in sizes:
        return 0
    is_whole = length == math.prod(sizes[level:]) * size
    while is_whole and length > span and not out[_first(level)].flags.c_contiguous:
        # Shorter runs, so that what is in between stays within its bounds.
        count, length, level = count * sizes[level], length // sizes[level], level + 1
    inner = sizes[level:]
    buffer: Array | None = None
    steps = packed(shape, size)[level:]
    for place, at in _places(base, shape, size, box, level):
        part = out[place]
        if is_whole and part.flags.c_contiguous:
            file.read(as_bytes(part), at)
            continue
        if buffer is None:
            buffer = np.empty(length // size, out.dtype)
        file.read(as_bytes(buffer), at)
        part[...] = np.lib.stride_tricks.as_strided(buffer, inner, steps)
    return count * length


def write_box(file: PlainFile, base: int, shape: Sequence[int], box: Box, array: Array) -> None:
    """Write a box; as `read_box`, from a packed array."""
    sizes, size = [high - low for low, high in box], array.itemsize
    if 0 in sizes:
        return
    level, _, _ = requests(shape, size, sizes, False)
    for place, at in _places(base, shape, size, box, level):
        file.write(as_bytes(array[place]), at)


def as_bytes(packed_array: Array) -> memoryview:
    """The memory of a packed array."""
    flat: Any = packed_array.reshape(-1).view(np.uint8)
    return memoryview(flat)


def _first(level: int) -> Any:
    return (*(0,) * level, ...)


def _places(base: int, shape: Sequence[int], itemsize: int, box: Box, level: int) -> Iterator[tuple[Any, int]]:
    """Where requests begin: in the box by its outer axes, and in the file."""
    steps = packed(shape, itemsize)
    first = base + sum(low * step for (low, _), step in zip(box, steps, strict=True))
    ranges = [range(high - low) for low, high in box[:level]]
    for place in itertools.product(*ranges):
        yield (*place, ...), first + sum(n * step for n, step in zip(place, steps, strict=False))
