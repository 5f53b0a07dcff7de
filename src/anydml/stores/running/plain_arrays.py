"""Boxes of arrays in plain files, read and written by requests as long as possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.stores.formats.store import Array, Box, Store
from anydml.stores.formats.target import Target
from anydml.stores.planning.boxes import MOST_SPAN, packed, parts, requests, word
from anydml.stores.running.files import PlainFile, Task


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


class PlainReader:
    """Reads boxes of an array in a plain file.

    Args:
        file: that contains it.
        store: the array.
        span: most bytes of a request with unneeded bytes.
    """

    def __init__(self, file: PlainFile, store: Store, span: int) -> None:
        self._file, self._store, self._span = file, store, span

    def reads(self, box: Box, out: Array) -> Iterator[Task]:
        """Tasks that read a box.

        Args:
            box: in coordinates of the array, as it lies.
            out: of the shape of the box, with elements of a `word`.
        """
        shape = self._store.packed.sizes
        for part in parts([high - low for low, high in box], out.nbytes, max(self._span, 1 << 20)):
            own = tuple((low + a, low + b) for (low, _), (a, b) in zip(box, part, strict=True))
            place: Any = (*(slice(a, b) for a, b in part), ...)
            yield partial(read_box, self._file, self._store.offset, shape, own, out[place], self._span)


class PlainWriter:
    """Writes boxes of an array in a plain file.

    Args:
        file: that will contain it.
        target: the array.
        unit: most bytes of a part.
    """

    fill = b""

    def __init__(self, file: PlainFile, target: Target, unit: int) -> None:
        self._file, self._target, self._unit = file, target, unit

    def parts(self, box: Box) -> Iterator[Box]:
        """The parts of a box that are written one by one."""
        sizes = [high - low for low, high in box]
        for part in parts(sizes, math.prod(sizes) * self._target.dtype.itemsize, self._unit):
            yield tuple((low + a, low + b) for (low, _), (a, b) in zip(box, part, strict=True))

    def box(self, part: Box) -> Box:
        """The box of a part."""
        return part

    def shape(self, part: Box) -> tuple[int, ...]:
        """The shape of the packed buffer of a part."""
        return tuple(high - low for low, high in part)

    def write(self, part: Box, flat: Array) -> None:
        """Write a part."""
        array = flat.view(word(self._target.dtype.itemsize)).reshape(self.shape(part))
        write_box(self._file, self._target.offset, self._target.shape, part, array)
