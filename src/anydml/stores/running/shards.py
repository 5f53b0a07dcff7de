"""Shards whose chunks anydml reads and writes itself: each is decoded, or encoded, as it comes."""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.files.addresses import Address
from anydml.files.located import MAX_REQUESTS, map_concurrently
from anydml.files.location import Location
from anydml.stores.formats.chunk_grid import Box, ChunkGrid
from anydml.stores.formats.shard_index import EMPTY, Entries, ShardIndex
from anydml.stores.formats.store import Array
from anydml.stores.formats.zarr_array import MAX_BYTES
from anydml.stores.running.files import PlainFile, begin_write_back, open_file

MAX_ENTRIES = 1 << 20
"""Maximum number of entries of indices that a reader keeps, of 16 bytes each."""

GAP = 64 << 10
"""Maximum number of bytes between two chunks that one request to an address reads."""

ChunkIndex = tuple[int, ...]


class Run(NamedTuple):
    """Chunks that lie close to each other in a shard.

    Attributes:
        path: the path of the shard.
        start: offset of the first byte.
        end: offset behind the last byte.
        chunks: their numbers, offsets and lengths; a length of 0 stands for fill values only.
    """

    path: Path
    start: int
    end: int
    chunks: list[tuple[ChunkIndex, int, int]]


class ShardReader:
    """Reads chunks of shards, encoded as they are.

    Args:
        path: the path of the array.
        grid: the array's chunks, in shards.
    """

    def __init__(self, path: Path, grid: ChunkGrid) -> None:
        self._path, self._grid, self._index = path, grid, index_in(grid)
        self._lock = threading.Lock()
        self._entries_of_files: OrderedDict[ChunkIndex, Entries | None] = OrderedDict()

    def chunk_location(self, chunk: ChunkIndex) -> tuple[int, int] | None:
        """Return offset and length of a chunk in its file; None if it has fill values only.

        Raises:
            OSError: the index cannot be read.
            ValueError: the index is broken.
        """
        file, chunk_number = self._grid.chunk_location(chunk)
        with self._lock:
            is_known, entries = file in self._entries_of_files, self._entries_of_files.get(file)
        if not is_known:
            entries = self._read(self._path / self._grid.name(chunk))
            with self._lock:
                self._keep(file, entries)
        offset, size = (EMPTY, EMPTY) if entries is None else map(int, entries[chunk_number])
        if offset == size == EMPTY:
            return None
        if offset + size > MAX_BYTES:
            raise ValueError(
                f"its index says {size} bytes from {offset} on, which is beyond any file: the shard is broken"
            )
        return offset, size

    def _keep(self, file: ChunkIndex, entries: Entries | None) -> None:
        self._entries_of_files[file] = entries
        while len(self._entries_of_files) > 1 and len(self._entries_of_files) * self._index.chunks > MAX_ENTRIES:
            self._entries_of_files.popitem(last=False)

    def runs(self, box: Box, span: int) -> Iterator[Run]:
        """Yield the chunks that a box intersects, as runs: chunks of one shard that one request reads.

        Args:
            box: the box, in coordinates of the array.
            span: most bytes of a run of several chunks.

        Raises:
            ModelError: an index cannot be read, or is broken.
        """
        by_file = groupby(self._grid.intersecting(box), lambda chunk: self._grid.chunk_location(chunk)[0])
        files = ([*chunks] for _, chunks in by_file)
        while file_batch := [*islice(files, MAX_REQUESTS)]:
            for chunks, places in zip(file_batch, map_concurrently(self._places, file_batch), strict=True):
                yield from self._runs(self._path / self._grid.name(chunks[0]), chunks, places, span)

    def _places(self, chunks: list[ChunkIndex]) -> list[tuple[int, int]]:
        """Return the offset and length of each chunk of a shard; two zeros for chunks of fill values only."""
        try:
            return [self.chunk_location(chunk) or (0, 0) for chunk in chunks]
        except (OSError, ValueError) as error:
            location = Location(str(self._path / self._grid.name(chunks[0])))
            message = getattr(error, "strerror", None) or str(error)
            raise location.error(f"cannot be read as chunk {[*chunks[0]]} of a shard: {message[:200]}") from None

    @staticmethod
    def _runs(path: Path, chunks: list[ChunkIndex], places: list[tuple[int, int]], span: int) -> Iterator[Run]:
        run = Run(path, 0, 0, [])
        for (offset, size), chunk in sorted(zip(places, chunks, strict=True)):
            is_near = offset - run.end <= GAP and offset + size - run.start <= span
            if run.end and not is_near:
                yield run
                run = Run(path, 0, 0, [])
            start = run.start if run.end else offset
            run = Run(path, start, max(run.end, offset + size), [*run.chunks, (chunk, offset, size)])
        if run.chunks:
            yield run

    def _read(self, path: Path) -> Entries | None:
        size = self._index.size
        try:
            if isinstance(path, Address):
                data = path.read_end(size) if self._index.is_last else bytes(path.read_range(0, size)[0])
            else:
                with path.open("rb") as file:
                    length = file.seek(0, os.SEEK_END)
                    file.seek(max(0, length - size) if self._index.is_last else 0)
                    data = file.read(size)
        except FileNotFoundError:
            return None
        return self._index.read(data)

    def read(self, chunk: ChunkIndex) -> bytes:
        """Return the bytes of a chunk.

        Raises:
            FileNotFoundError: the chunk has fill values only.
            OSError: the chunk cannot be read.
            ValueError: the index is broken.
        """
        interval, path = self.chunk_location(chunk), self._path / self._grid.name(chunk)
        if interval is None:
            raise FileNotFoundError(2, "fill values only", str(path))
        offset, size = interval
        if isinstance(path, Address):
            data = bytes(path.read_range(offset, offset + size)[0])
        else:
            with path.open("rb") as file:
                # Checked first, so that a broken index cannot make `read` allocate more bytes than the file has.
                if offset + size > file.seek(0, os.SEEK_END):
                    raise ValueError(
                        f"its index says {size} bytes from {offset} on, but the file is shorter: it is truncated"
                    )
                file.seek(offset)
                data = file.read(size)
        if len(data) != size:
            raise ValueError(f"it has {len(data)} bytes, but its index says {size}")
        return data


class _Shard:
    """A shard that is being written."""

    def __init__(self, path: Path, index: ShardIndex, remaining: int, scratch: Path) -> None:
        self.path, self._index, self._scratch = path, index, scratch
        self.chunks_left, self.end = remaining, 0 if index.is_last else index.size
        self.entries = np.full((index.chunks, 2), EMPTY, np.uint64)
        self.written: list[tuple[ChunkIndex, Array]] = []
        self._held: Any = None
        self._file: PlainFile | None = None

    def file(self) -> PlainFile:
        """Return the file, created for the first chunk that has bytes; for an address, an unnamed temporary file."""
        if self._file is None and isinstance(self.path, Address):
            self._held = tempfile.TemporaryFile(prefix=".anydml-", dir=self._scratch)  # noqa: SIM115  # see `close`
            self._file = PlainFile(self._scratch, True, False, self._held.fileno())
        elif self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = PlainFile(self.path, True, True, open_file(self.path, True))
        return self._file

    def finish(self) -> None:
        """Write the index, and close the file, if one was begun."""
        try:
            if self._file is not None:
                offset = self.end if self._index.is_last else 0
                self._file.write(memoryview(self._index.write(self.entries)), offset)
                if isinstance(self.path, Address):
                    self._held.seek(0)
                    self.path.copy_from(self._held)
                else:
                    begin_write_back(self._file.descriptor, 0, self.end)
        finally:
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._held is not None:
            self._held.close()
        elif self._file is not None:
            self._file.__exit__()
        self._file = self._held = None


class ShardWriter:
    """Writes chunks into shards, several of which are open at once.

    Args:
        folder: the folder of the array.
        grid: the array's chunks, in shards.
        scratch: a folder of this machine, in which shards for an address are put together.
    """

    def __init__(self, folder: Path, grid: ChunkGrid, scratch: Path) -> None:
        self._folder, self._grid, self._scratch, self._index = folder, grid, scratch, index_in(grid)
        self._lock = threading.Lock()
        self._open: dict[ChunkIndex, _Shard] = {}

    def put(
        self, chunks: Sequence[ChunkIndex], data: memoryview | None, elements: Sequence[Array | None]
    ) -> list[tuple[ChunkIndex, Array]]:
        """Write chunks of one shard that all have one number of bytes.

        Args:
            chunks: their numbers.
            data: the bytes of the chunks, one after the other; None if they have fill values only.
            elements: the elements of each, if they are to be returned when the shard is whole.

        Returns:
            Numbers and elements of the chunks of the shard that were given for this, if it is whole now.

        Raises:
            OSError: the file cannot be written.
        """
        file, numbers = (
            self._grid.chunk_location(chunks[0])[0],
            [self._grid.chunk_location(chunk)[1] for chunk in chunks],
        )
        spilled_chunks = [
            (chunk, kept_elements)
            for chunk, kept_elements in zip(chunks, elements, strict=True)
            if kept_elements is not None
        ]
        with self._lock:
            if file not in self._open:
                remaining = math.prod(map(len, self._grid.inside(file)))
                path = self._folder / self._grid.name(chunks[0])
                self._open[file] = _Shard(path, self._index, remaining, self._scratch)
            shard = self._open[file]
            if data is not None:
                offset, shard.end = shard.end, shard.end + data.nbytes
                size = data.nbytes // len(chunks)
                shard.entries[numbers, 0] = offset + size * np.arange(len(chunks))
                shard.entries[numbers, 1] = size
                opened = shard.file()
            shard.written += spilled_chunks
        if data is not None:
            opened.write(data, offset)
        with self._lock:
            shard.chunks_left -= len(chunks)
            if shard.chunks_left:
                return []
            del self._open[file]
        shard.finish()
        return shard.written

    def close(self) -> None:
        """Close all open files."""
        for shard in self._open.values():
            shard.close()


def index_in(grid: ChunkGrid) -> ShardIndex:
    """Return the form of the indices of a grid that has shards."""
    if grid.index is None:
        raise AssertionError("the array has no shards that are read here")
    return grid.index
