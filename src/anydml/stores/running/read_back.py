"""Verification of written chunks: some are read back by the array's metadata before the array gets its name."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.stores.formats.chunk_grid import Box, ChunkGrid
from anydml.stores.formats.store import Array
from anydml.stores.formats.zarr_array import zarr_array
from anydml.stores.formats.zarr_codecs import raise_if_short, rounding
from anydml.stores.formats.zarr_in_memory import decode_chunk, encode_chunk
from anydml.stores.formats.zarr_metadata import RequestedLayout, changed
from anydml.stores.formats.zarr_rectilinear import as_regular
from anydml.stores.formats.zarr_strings import stored

DRIFTING = frozenset({"delta", "zfpy"})
"""Codecs that round already rounded numbers once more."""

MAX_PLAIN_BYTES = 1 << 20
"""Maximum bytes of a chunk without codecs that are compared, since zarr-python holds several copies."""


MAX_TWO_BYTES = 8 << 20
"""Maximum bytes of a file of chunks that is read back while another one is; a larger one is read back alone."""


class ReadBack:
    """Reads back the first and the last chunk of an array, and partial chunks at its ends.

    zarr-python opens the folder and reads them, which checks anydml's codecs, file names and byte order against another
    implementation.

    Args:
        grid: the chunks of the array.
        folder: the array's folder until it gets its name.
        metadata: contents of the files that describe it, by name.
    """

    def __init__(self, grid: ChunkGrid, folder: Path, metadata: Mapping[str, bytes]) -> None:
        self.grid, self.folder, self._metadata = grid, folder, as_regular(metadata)
        last = tuple(count - 1 for count in grid.counts)
        self._numbers = {(0,) * len(last), last}
        # Large chunks one at a time, because each takes memory beyond the plan's.
        size = math.prod(grid.file) * grid.dtype.itemsize
        self._lock = threading.Semaphore(2 if size <= MAX_TWO_BYTES else 1)
        # Along each axis, the last chunk, which may be partial.
        self._numbers |= {(0,) * k + (last[k],) + (0,) * (len(last) - k - 1) for k in range(len(last))}

    def is_read(self, chunk: Sequence[int]) -> bool:
        """Whether a chunk is read back."""
        return tuple(chunk) in self._numbers

    def check(self, chunk: Sequence[int], elements: Array) -> None:
        """Compare the chunks of a file with the written elements, if the file is to be read back.

        Args:
            chunk: the number of the file, along each axis.
            elements: the elements of the file's chunks, also outside the array.

        Raises:
            ModelError: different elements are read.
        """
        if not self.is_read(chunk):
            return
        box = self.grid.box(chunk)
        if self.grid.edges is not None:
            with self._lock:
                self._compare(box, elements[tuple(slice(0, e - a) for a, e in box)], chunk)
            return
        # For each part of an object that is not a shard, zarr-python fetches the whole object.
        ends = [any(chunk)] if isinstance(self.folder, Address) and not self.grid.is_sharded else [False, True]
        for runs in {self._inner(box, at_end) for at_end in ends}:
            inside = tuple(slice(a - low, e - low) for (a, e), (low, _) in zip(runs, box, strict=True))
            with self._lock:
                self._compare(runs, np.ascontiguousarray(elements[inside]))

    def _inner(self, box: Box, at_end: bool) -> Box:
        """Return the box of the first or last chunk or shard; in plain files, of at most `MAX_PLAIN_BYTES` bytes."""
        inner_box = [
            (a + (e - a - 1) // size * size, e) if at_end else (a, min(a + size, e))
            for (a, e), size in zip(box, self.grid.inner, strict=True)
        ]
        size = math.prod(e - a for a, e in inner_box) * self.grid.dtype.itemsize
        for axis, (a, e) in enumerate(inner_box if self.grid.is_plain else ()):
            size //= max(1, e - a)
            count = min(e - a, max(1, MAX_PLAIN_BYTES // max(1, size)))
            inner_box[axis] = (e - count, e) if at_end else (a, a + count)
            if count > 1:
                break
        return tuple(inner_box)

    def _read(self, box: Box, chunk: Sequence[int] | None) -> Array:
        """Read a box by zarr-python; for chunks of varying sizes, which it may not support, read a single chunk."""
        if chunk is None:
            array = zarr_array(self.folder, self._metadata)
            return stored(array[tuple(slice(a, e) for a, e in box)], array.dtype)
        path = self.folder / self.grid.name(chunk)
        inside = tuple(slice(0, e - a) for a, e in box)
        if not path.is_file():
            return np.full([e - a for a, e in box], np.frombuffer(self.grid.fill, self.grid.dtype)[0])
        return decode_chunk(self._metadata, self.grid.sizes(chunk), path.read_bytes())[inside]

    def _compare(self, box: Box, written: Array, chunk: Sequence[int] | None = None) -> None:
        location = Location(str(self.folder))
        try:
            read_elements = self._read(box, chunk)
            if self._same(read_elements, written):
                return
            if self._is_rounded(read_elements, written):
                return
        except Exception as error:
            # Codecs raise errors of any type.
            raise_if_short(error)
            raise location.error(
                f"cannot be read back, and did not get its name: {type(error).__name__}: {str(error)[:200]}"
            ) from None
        box_text = ",".join(f"{a}:{e}" for a, e in box)
        raise location.error(
            f"has other elements at [{box_text}] than were written, when zarr-python reads them back; it "
            "did not get its name: ask for other --chunks, --shards or another --codec"
        )

    def _same(self, elements: Array, expected: Array) -> bool:
        """Whether elements have the same bytes."""
        dtype = self.grid.dtype
        actual_bytes, expected_bytes = (
            np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8) for array in (elements, expected)
        )
        return np.array_equal(actual_bytes, expected_bytes)

    def _is_rounded(self, elements: Array, written: Array) -> bool:
        """Whether codecs only rounded elements: a second pass would not change them again."""
        if not (names := rounding(self._metadata, self.grid.dtype)) or not self._same(elements, self._round(written)):
            return False
        return not names.isdisjoint(DRIFTING) or self._same(elements, self._round(elements))

    def _round(self, written: Array) -> Array:
        """Return elements after the codecs of a chunk, encoded and decoded in memory."""
        request = RequestedLayout(range(written.ndim), [*self.grid.inner], () if self.grid.version == 3 else None)
        metadata = changed(self._metadata, written.shape, request)
        return decode_chunk(metadata, written.shape, encode_chunk(metadata, written))
