"""Boxes of arrays that lie in a file in row-major order: read and written by requests as long as possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anydml.stores.formats.store import Array, Box
from anydml.stores.planning.box_requests import MOST_SPAN, packed, requests
from anydml.stores.running.files import PlainFile


def read_box(file: PlainFile, base: int, shape: Sequence[int], box: Box, out: Array, span: int = MOST_SPAN) -> int:
    """Read a box, and return the number of bytes read.

    Args:
        file: that holds the array.
        base: offset of the first element.
        shape: of the array.
        box: in coordinates of the array.
        out: of the shape of the box, with any strides.
        span: as in `requests`.
    """
    sizes, size = [high - low for low, high in box], out.itemsize
    level, count, length = requests(shape, size, sizes, True, span)
    if 0 in sizes:
        return 0
    is_whole = length == math.prod(sizes[level:]) * size
    while is_whole and length > span and not out[_first(level)].flags.c_contiguous:
        # Shorter runs, so that the intermediate buffer stays within `span`.
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
    """Write a box from a packed array; as `read_box`."""
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
    """The index into the box, and the offset in the file, of each request."""
    steps = packed(shape, itemsize)
    first = base + sum(low * step for (low, _), step in zip(box, steps, strict=True))
    ranges = [range(high - low) for low, high in box[:level]]
    for place in itertools.product(*ranges):
        yield (*place, ...), first + sum(n * step for n, step in zip(place, steps, strict=False))
