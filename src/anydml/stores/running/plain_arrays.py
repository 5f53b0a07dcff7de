"""Reading and writing of boxes of arrays in plain files, by requests that are as long as possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array
from anydml.stores.formats.target import Target
from anydml.stores.planning.block_shapes import cost_at, offset_of, requests, sizes_of, split_box, word
from anydml.stores.planning.transfers import coordinate_offsets
from anydml.stores.running.buffers import Buffers
from anydml.stores.running.files import PlainFile
from anydml.stores.running.objects import MAX_COLLECTED, ObjectFile
from anydml.tensor import Layout


def read_box(
    file: PlainFile | ObjectFile, base: int, shape: tuple[int, ...], box: Box, out: Array, span: int, buffers: Buffers
) -> None:
    """Read a box.

    Args:
        file: the file of the array.
        base: offset of the first element.
        shape: the shape of the array.
        box: the box in coordinates of the array.
        out: an array with the shape of the box and any strides.
        span: as in `requests`.
        buffers: buffers for data that must be rearranged.
    """
    sizes, size, layout = sizes_of(box), out.itemsize, Layout.packed(shape, out.itemsize)
    level, _, length = requests(layout, box, True, span, cost_at(file.path))
    if 0 in sizes:
        return
    is_whole = length == math.prod(sizes[level:]) * size
    while is_whole and length > span and not out[_first(level)].flags.c_contiguous:
        # Shorter runs, so that the intermediate buffer stays within `span`.
        length, level = length // sizes[level], level + 1
    if is_whole and out[_first(level)].flags.c_contiguous:
        for index, offset in _places(base, layout, box, level):
            file.read(as_bytes(out[index]), offset)
        return
    if isinstance(file, ObjectFile) and length <= MAX_COLLECTED:
        for index, offset in _places(base, layout, box, level):
            data = file.received(offset, length)
            out[index] = np.ndarray(sizes[level:], out.dtype, data, strides=layout.strides[level:])
        return
    with buffers.lent(length) as buffer:
        read = np.ndarray(sizes[level:], out.dtype, buffer, strides=layout.strides[level:])
        for index, offset in _places(base, layout, box, level):
            file.read(buffer.data, offset)
            out[index] = read


def write_box(file: PlainFile, base: int, shape: tuple[int, ...], box: Box, array: Array) -> None:
    """Write a box from a packed array; other arguments as of `read_box`."""
    layout = Layout.packed(shape, array.itemsize)
    if not array.size:
        return
    level, _, _ = requests(layout, box, False)
    for index, offset in _places(base, layout, box, level):
        file.write(as_bytes(array[index]), offset)


def as_bytes(packed_array: Array) -> memoryview:
    """Return the memory of a packed array."""
    flat: Any = packed_array.reshape(-1).view(np.uint8)
    return memoryview(flat)


def _first(level: int) -> Any:
    return (*(0,) * level, ...)


def _places(base: int, layout: Layout, box: Box, level: int) -> Iterator[tuple[Any, int]]:
    """Return the index into the box, and the offset in the file, of each request."""
    outer = sizes_of(box)[:level]
    places = coordinate_offsets(base + offset_of(box, layout.strides), outer, layout.strides[:level])
    return zip(((*index, ...) for index in itertools.product(*map(range, outer))), places.tolist(), strict=True)


class PlainWriter:
    """Writes boxes of an array in a plain file.

    Args:
        file: the file of the array.
        target: the array.
        unit: maximum bytes of a part.
    """

    fill = b""

    def __init__(self, file: PlainFile, target: Target, unit: int) -> None:
        self._file, self._target, self._unit = file, target, unit

    def parts(self, box: Box) -> Iterator[tuple[Sequence[Box], Box, tuple[int, ...]]]:
        """Yield the parts of a box, as `BoxWriter.parts` does."""
        for part in split_box(box, self._target.dtype.itemsize, self._unit):
            yield [part], part, sizes_of(part)

    def write(self, parts: Sequence[Box], flat: Array) -> None:
        """Write a part from its buffer."""
        (part,) = parts
        array = flat.view(word(self._target.dtype.itemsize)).reshape(sizes_of(part))
        write_box(self._file, self._target.offset, self._target.shape, part, array)
