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
