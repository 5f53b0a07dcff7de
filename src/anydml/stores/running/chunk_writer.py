"""Chunks of Zarr arrays, encoded and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.json_path import JsonPath
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array
from anydml.stores.formats.zarr_codecs import coder_of, raise_if_short
from anydml.stores.formats.zarr_in_memory import encoded
from anydml.stores.formats.zarr_metadata import has_fill_value
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.running.files import PlainFile, open_file
from anydml.stores.running.plain_arrays import as_bytes
from anydml.stores.running.read_back import ReadBack
from anydml.stores.running.shards import ShardWriter


class ChunkWriter:
    """Writes chunks of a Zarr array.

    Args:
        target: the array.
        folder: its folder until it gets its name.
        scratch: a local folder, in which shards for an address are assembled.
    """

    def __init__(self, target: ZarrTarget, folder: Path, scratch: Path) -> None:
        grid = target.layout
        self.grid, self.folder = grid, folder
        self._coder = coder_of(grid.codec) if grid.is_own and grid.codec is not None else None
        self._metadata = target.metadata
        self._made: set[Path] = set()
        self._back = ReadBack(grid, folder, target.metadata)
        self._shards = None if grid.shard is None else ShardWriter(folder, grid, scratch)
        self.fill = grid.fill
        # Without a fill value, readers differ in the elements of a chunk without a file.
        self._leaves_out = (self._shards is not None or not grid.is_own) and has_fill_value(target.metadata)

    def close(self) -> None:
        """Close shards that an error has left open."""
        if self._shards is not None:
            self._shards.close()

    def parts(self, box: Box) -> Iterator[tuple[tuple[int, ...], Box, tuple[int, ...]]]:
        """Yield the chunks of a box, as `PlainWriter.parts` does."""
        for chunk in self.grid.intersecting(box):
            yield chunk, self.grid.box(chunk), self.grid.sizes(chunk)

    def _has_fill_alone(self, flat: Array) -> bool:
        """Whether all elements have the bytes of the fill value, so that a shard may leave the chunk out."""
        # As integers, because equal numbers may have different bytes.
        size = len(self.fill)
        kind = np.dtype(np.uint64 if size % 8 == 0 else f"u{size}" if size in (1, 2, 4) else np.uint8)
        fill = np.frombuffer(self.fill, kind)
        rows = flat.view(kind).reshape(-1, fill.size)
        return bool(rows.size) and bool((rows[0] == fill).all()) and bool((rows == fill).all())

    def write(self, chunk: Sequence[int], flat: Array) -> None:
        """Write a whole chunk; elements outside the array are fill values.

        Raises:
            ModelError: a codec refuses the elements, or different elements are read back.
        """
        grid, sizes = self.grid, self.grid.sizes(chunk)
        elements = flat.view(grid.dtype).reshape(sizes)
        path = self.folder / grid.name(chunk)
        try:
            # Shards, and zarr-python, leave out chunks that have only fill values.
            is_left_out = self._leaves_out and self._has_fill_alone(flat)
            data = as_bytes(flat)
            if not grid.is_own and not is_left_out:
                data = memoryview(encoded(self._metadata, elements))
            elif self._coder is not None and not is_left_out:
                data = memoryview(self._coder.encode(elements))
        except (OSError, ModelError):
            raise
        except Exception as error:
            # Codecs raise errors of any type.
            raise_if_short(error)
            raise JsonPath(str(path)).error(f"cannot be encoded: {str(error)[:200]}") from None
        if self._shards is not None:
            copied = elements.copy() if self._back.is_read(chunk) else None
            for number, file_elements in self._shards.put(
                tuple(chunk), None if is_left_out else data.cast("B"), copied
            ):
                self._back.check(number, file_elements)
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
