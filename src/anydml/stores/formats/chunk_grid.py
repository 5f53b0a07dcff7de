"""The division of arrays into chunks in files."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anydml.stores.formats.shard_index import ShardIndex
from anydml.tensor import Layout

Box = tuple[tuple[int, int], ...]
"""First coordinate and the one after the last, by axis."""


@dataclass(frozen=True, eq=False)
class ChunkGrid:
    """The division of an array into chunks, and the format of their files. Each file holds one chunk or one shard.

    An array in a plain file is one chunk.

    Attributes:
        shape: sizes of the array.
        chunk: sizes of the box that is decoded at once: those of a chunk, or of a shard that zarr-python reads.
        dtype: dtype of the elements.
        version: Zarr format, 2 or 3; 0 for an array in a plain file.
        separator: text between the indices in a file's name.
        is_prefixed: whether file names begin with ``c``.
        codec: numcodecs' configuration of the only codec that changes bytes; None if there is none.
        is_own: whether anydml reads and writes the files itself, because they are packed in C order with at most that
            codec; otherwise zarr-python does.
        fill: bytes of an element of a chunk without a file.
        inner: sizes of the chunks of a shard; equal to `chunk` without shards.
        offset: bytes before the elements of a chunk.
        shard: sizes of the shards, if anydml reads and writes their chunks itself; otherwise None.
        index: the form of their indices; None without such shards.
        edges: starts of chunks of varying sizes along each axis, and the end of the last; `chunk` then has the largest
            sizes. None if all chunks have one size.
        is_alone: whether zarr-python reads the chunk of each file as a separate array.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype[Any]
    version: int
    separator: str
    is_prefixed: bool
    codec: Mapping[str, Any] | None
    is_own: bool
    fill: bytes = field(repr=False)
    inner: tuple[int, ...]
    offset: int = 0
    shard: tuple[int, ...] | None = None
    index: ShardIndex | None = None
    edges: tuple[tuple[int, ...], ...] | None = None
    is_alone: bool = False

    @classmethod
    def of_plain_file(cls, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> ChunkGrid:
        """Return the grid of an array in row-major order in a plain file, from an offset on."""
        chunk = tuple(max(1, size) for size in shape)
        return cls(shape, chunk, dtype, 0, "", False, None, True, b"", chunk, offset)

    def with_one_chunk_per_file(self, edges: tuple[tuple[int, ...], ...] | None) -> ChunkGrid:
        """Return the grid with one chunk per file: shards with chunks of varying sizes have several indices."""
        is_own = self.is_own and self.shard is None and edges is not None
        chunk = (
            self.file
            if edges is None
            else tuple(max(map(int.__sub__, axis_edges[1:], axis_edges)) for axis_edges in edges)
        )
        return replace(self, chunk=chunk, shard=None, index=None, is_own=is_own, edges=edges, is_alone=True)

    @property
    def is_one(self) -> bool:
        """Whether the array is in a plain file."""
        return self.version == 0

    @property
    def packed(self) -> Layout:
        """The layout of the elements in row-major order, without chunks."""
        return Layout.packed(self.shape, self.dtype.itemsize)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded chunk."""
        return math.prod(self.chunk) * self.dtype.itemsize

    @property
    def is_plain(self) -> bool:
        """Whether a file holds uncompressed elements only."""
        return self.is_own and self.codec is None

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of chunks along each axis."""
        return tuple(self.span(axis, 0, size)[1] for axis, size in enumerate(self.shape))

    def span(self, axis: int, low: int, high: int) -> tuple[int, int]:
        """Return the range of chunks with coordinates from `low` to `high` of an axis."""
        if self.edges is None:
            return low // self.chunk[axis], -(-high // self.chunk[axis])
        edges = self.edges[axis]
        return max(0, bisect_right(edges, low) - 1), bisect_left(edges, high)

    def sizes(self, chunk: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of a chunk, including elements outside the array."""
        if self.edges is None:
            return self.chunk
        return tuple(edges[k + 1] - edges[k] for k, edges in zip(chunk, self.edges, strict=True))

    @property
    def is_sharded(self) -> bool:
        """Whether files hold shards."""
        return self.shard is not None or self.inner != self.chunk

    @property
    def file(self) -> tuple[int, ...]:
        """Sizes of the box in one file."""
        return self.chunk if self.shard is None else self.shard

    @property
    def _ratio(self) -> list[int]:
        """Chunks of a file along each axis."""
        return [a // b for a, b in zip(self.file, self.chunk, strict=True)]

    def chunk_location(self, chunk: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Return the numbers along each axis of a chunk's file, and the number of the chunk in it."""
        ratio, position = self._ratio, 0
        for k, count in zip(chunk, ratio, strict=True):
            position = position * count + k % count
        return tuple(k // count for k, count in zip(chunk, ratio, strict=True)), position

    def inside(self, file: Sequence[int]) -> list[range]:
        """Return the numbers along each axis of a file's chunks that contain elements of the array."""
        columns = zip(file, self._ratio, self.shape, self.chunk, strict=True)
        return [range(k * count, min((k + 1) * count, -(-size // c))) for k, count, size, c in columns]

    def name(self, chunk: Sequence[int]) -> str:
        """Return the path of a chunk's file, relative to the folder of the array."""
        if self.shard is not None:
            chunk = self.chunk_location(chunk)[0]
        if self.is_prefixed:
            return self.separator.join(["c", *map(str, chunk)])
        return self.separator.join(map(str, chunk)) or "0"

    def intersecting(self, box: Box) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the chunks that intersect a box, grouped by file."""
        ranges = [range(*self.span(axis, *interval)) for axis, interval in enumerate(box)]
        if self.shard is None or 0 in map(len, ranges):
            yield from itertools.product(*ranges)
            return
        ratio = self._ratio
        files = [
            range(coordinates[0] // count, coordinates[-1] // count + 1)
            for coordinates, count in zip(ranges, ratio, strict=True)
        ]
        for file in itertools.product(*files):
            columns = zip(file, ratio, ranges, strict=True)
            yield from itertools.product(
                *(
                    range(max(coordinates[0], k * count), min(coordinates[-1] + 1, (k + 1) * count))
                    for k, count, coordinates in columns
                )
            )

    def rows(self, box: Box, max_chunks: int) -> Iterator[list[tuple[int, ...]]]:
        """Yield the chunks that intersect a box, as rows of chunks of one shard, if there are shards.

        A row in row-major order has its chunks one after the other, because they have one element along the axes before
        that of the row.

        Args:
            box: the box, in coordinates of the array.
            max_chunks: the maximum number of chunks of a row.
        """
        if max_chunks == 1 or self.edges is not None or not self.shape:
            yield from ([chunk] for chunk in self.intersecting(box))
            return
        first = next((axis for axis, size in enumerate(self.chunk) if size > 1), len(self.chunk) - 1)
        counts = [high - low for low, high in (self.span(axis, *box[axis]) for axis in range(first + 1))]
        axis = counts.index(max(counts))
        by_file = itertools.groupby(
            self.intersecting(box), lambda chunk: self.chunk_location(chunk)[0] if self.shard else None
        )
        for _, chunks in by_file:
            rows = dict[tuple[int, ...], list[tuple[int, ...]]]()
            for chunk in chunks:
                rows.setdefault((*chunk[:axis], *chunk[axis + 1 :]), []).append(chunk)
            for row in rows.values():
                yield from (row[k : k + max_chunks] for k in range(0, len(row), max_chunks))

    def box(self, chunk: Sequence[int]) -> Box:
        """Return the box of elements of a chunk, clipped to the array."""
        if self.edges is not None:
            columns = zip(chunk, self.edges, self.shape, strict=True)
            return tuple((edges[k], min(size, edges[k + 1])) for k, edges, size in columns)
        return tuple((k * c, min(size, (k + 1) * c)) for k, c, size in zip(chunk, self.chunk, self.shape, strict=True))
