"""Chunks of Zarr arrays, encoded and written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.located import MAX_REQUESTS
from anydml.files.location import Location
from anydml.stores.formats.chunk_grid import Box, ChunkGrid
from anydml.stores.formats.store import Array
from anydml.stores.formats.zarr_codecs import coder_of, raise_if_short
from anydml.stores.formats.zarr_in_memory import encode_chunk
from anydml.stores.formats.zarr_metadata import has_fill_value
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning.block_shapes import block_count, sizes_of
from anydml.stores.running.files import PlainFile, open_file
from anydml.stores.running.plain_arrays import as_bytes
from anydml.stores.running.read_back import ReadBack
from anydml.stores.running.shards import ShardWriter

ROW = 4 << 20
"""Maximum bytes of chunks that are moved together."""


class ChunkWriter:
    """Writes chunks of a Zarr array.

    Args:
        target: the array.
        folder: the folder of the array until it gets its final name.
        scratch: a local folder, in which shards for an address are assembled.
        need: bytes that a thread may need for chunks that are moved together, and one that is encoded.
    """

    def __init__(self, target: ZarrTarget, folder: Path, scratch: Path, need: int) -> None:
        grid = target.layout
        self.grid, self.folder = grid, folder.held() if isinstance(folder, Address) else folder
        self._coder = coder_of(grid.codec) if grid.is_own and grid.codec is not None else None
        self._metadata = target.metadata
        self._made: set[Path] = set()
        self._back = ReadBack(grid, folder, target.metadata)
        self._shards = None if grid.shard is None else ShardWriter(folder, grid, scratch)
        self.fill, self._row = grid.fill, _row_of(grid, need)
        # Without a fill value, readers differ in the elements of a chunk without a file.
        self._leaves_out = (self._shards is not None or not grid.is_own) and has_fill_value(target.metadata)

    def close(self) -> None:
        """Close shards that an error has left open."""
        if self._shards is not None:
            self._shards.close()

    def parts(self, box: Box) -> Iterator[tuple[Sequence[tuple[int, ...]], Box, tuple[int, ...]]]:
        """Yield the chunks of a box, as `BoxWriter.parts` does."""
        length = self._row
        if isinstance(self.folder, Address):
            # Chunks that are moved together are sent in turn: as many requests as are made at once must be left.
            length = max(1, min(length, block_count(sizes_of(box), self.grid.file) // MAX_REQUESTS))
        for row in self.grid.rows(box, length):
            ends = zip(self.grid.box(row[0]), self.grid.box(row[-1]), strict=True)
            counts = [last - first + 1 for first, last in zip(row[0], row[-1], strict=True)]
            sizes = zip(counts, self.grid.sizes(row[0]), strict=True)
            yield row, tuple((low, high) for (low, _), (_, high) in ends), tuple(map(math.prod, sizes))

    def _has_fill_alone(self, flat: Array) -> bool:
        """Whether all elements have the bytes of the fill value, so that a shard may leave the chunk out."""
        # As integers, because equal numbers may have different bytes.
        size = len(self.fill)
        word_dtype = np.dtype(np.uint64 if size % 8 == 0 else f"u{size}" if size in (1, 2, 4) else np.uint8)
        fill = np.frombuffer(self.fill, word_dtype)
        rows = flat.view(word_dtype).reshape(-1, fill.size)
        return bool(rows.size) and bool((rows[0] == fill).all()) and bool((rows == fill).all())

    def write(self, row: Sequence[tuple[int, ...]], flat: Array) -> None:
        """Write whole chunks that are contiguous in memory; elements outside the array are fill values.

        Raises:
            ModelError: a codec refuses the elements, or different elements are read back.
        """
        size = flat.size // len(row)
        pieces = [(chunk, flat[k * size : (k + 1) * size]) for k, chunk in enumerate(row)]
        if self._shards is None or not self.grid.is_plain:
            for chunk, piece in pieces:
                self._write(chunk, piece)
            return
        start = 0
        for is_left_out, group in groupby(pieces, lambda pair: self._leaves_out and self._has_fill_alone(pair[1])):
            run = [*group]
            end = start + len(run) * size
            self._put(self._shards, run, None if is_left_out else as_bytes(flat[start:end]))
            start = end

    def _put(self, shards: ShardWriter, run: Sequence[tuple[tuple[int, ...], Array]], data: memoryview | None) -> None:
        """Write chunks of a shard, given their bytes, or None for a chunk of fill values only."""
        copies = [
            piece.view(self.grid.dtype).reshape(self.grid.sizes(chunk)).copy() if self._back.is_read(chunk) else None
            for chunk, piece in run
        ]
        for shard_number, file_elements in shards.put([chunk for chunk, _ in run], data, copies):
            self._back.check(shard_number, file_elements)

    def _write(self, chunk: tuple[int, ...], flat: Array) -> None:
        """Write a chunk that is encoded, or has a file of its own."""
        grid, sizes = self.grid, self.grid.sizes(chunk)
        elements = flat.view(grid.dtype).reshape(sizes)
        path = self.folder / grid.name(chunk)
        try:
            # Shards, and zarr-python, leave out chunks that have only fill values.
            is_left_out = self._leaves_out and self._has_fill_alone(flat)
            data = as_bytes(flat)
            if not grid.is_own and not is_left_out:
                data = memoryview(encode_chunk(self._metadata, elements))
            elif self._coder is not None and not is_left_out:
                data = memoryview(self._coder.encode(elements))
        except (OSError, ModelError):
            raise
        except Exception as error:
            # Codecs raise errors of any type.
            raise_if_short(error)
            raise Location(str(path)).error(f"cannot be encoded: {str(error)[:200]}") from None
        if self._shards is not None:
            self._put(self._shards, [(chunk, flat)], None if is_left_out else data.cast("B"))
            return
        if is_left_out:
            self._back.check(chunk, elements)
            return
        if isinstance(path, Address):
            path.write_bytes(data)
            self._back.check(chunk, elements)
            return
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        with PlainFile(path, True, True, open_file(path, True)) as file:
            file.write(data.cast("B"), 0)
        self._back.check(chunk, elements)


def _row_of(grid: ChunkGrid, need: int) -> int:
    """Return how many chunks are moved together, in at most `ROW` bytes."""
    size = max(1, grid.chunk_bytes)
    return max(1, min(ROW, need - (0 if grid.is_plain else size)) // size)
