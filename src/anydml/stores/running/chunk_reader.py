"""Reading of boxes of chunked arrays; chunks that several blocks need are decoded once."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.memory.host import address_of
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array, Store
from anydml.stores.formats.zarr_array import ZarrStore, zarr_array
from anydml.stores.formats.zarr_codecs import Decoder, bounded, raise_if_short
from anydml.stores.formats.zarr_in_memory import decode_chunk
from anydml.stores.formats.zarr_warnings import unwarned
from anydml.stores.planning.block_shapes import common_box, inside_box, size_of, sizes_of, split_box, word
from anydml.stores.running.buffers import Buffers
from anydml.stores.running.files import PlainFile, Task
from anydml.stores.running.objects import ObjectFile
from anydml.stores.running.plain_arrays import as_bytes, read_box
from anydml.stores.running.shards import Run, ShardReader
from anydml.stores.running.spilled_chunks import SpilledChunks

KEPT_READ = 4 << 20
"""Bytes of a request for spilled decoded chunks, if the buffers have room for so many."""


TOGETHER = 2 << 20
"""Bytes of plain chunks of a shard that one thread reads, so that the shard is opened once for them."""


class ChunkReader:
    """Reads boxes of an array.

    Args:
        store: the array.
        span: the maximum size in bytes of a request that also reads unneeded bytes.
        spilled: the decoded chunks for later boxes; None to decode a chunk again for every box.
        buffers: buffers for data that must be decoded or rearranged.
        file: the plain file of the array; None if it is chunked.
    """

    def __init__(
        self,
        store: Store | ZarrStore,
        span: int,
        spilled: SpilledChunks | None,
        buffers: Buffers,
        file: PlainFile | None = None,
    ) -> None:
        self._buffers = buffers
        path = store.path.held() if isinstance(store.path, Address) else store.path
        self.path, self.grid, self.span, self._file = path, store.layout, span, file
        self._is_elsewhere = isinstance(store.path, Address)
        self._word = word(store.dtype.itemsize)
        codec = self.grid.codec if self.grid.is_own else None
        self._decoder = None if codec is None else Decoder(codec, self.grid.chunk_bytes)
        self._metadata = store.metadata if isinstance(store, ZarrStore) else {}
        self._is_whole = self.grid.is_own or self.grid.is_alone
        with unwarned():
            self._array: Any = None if self._is_whole else bounded(_array_of(store))
        self._shards = None if self.grid.shard is None else ShardReader(store.path, self.grid)
        self._spilled = spilled

    def reads(self, box: Box, out: Array, block: int = 0, before: int = 0) -> Iterator[Task]:
        """Yield tasks that read a box.

        Args:
            box: the box in coordinates of the array, in row-major order.
            out: an array with the shape of the box, with elements of a `word`.
            block: number of the block that needs it.
            before: number of the block's boxes of this array that come before this one.
        """
        if self._spilled is not None:
            yield from self._spilled_reads(self._spilled, self._spilled.boxes_of(block)[before], box, out)
            return
        if self._file is not None:
            for part in split_box(box, out.itemsize, self.span if self._is_elsewhere else max(self.span, 1 << 20)):
                part_of_out = out[inside_box(part, box)]
                yield partial(
                    read_box, self._file, self.grid.offset, self.grid.shape, part, part_of_out, self.span, self._buffers
                )
            return
        if self._shards is not None and self._is_elsewhere:
            for run in self._shards.runs(box, self.span):
                yield partial(self._run, run, box, out)
            return
        if self._shards is not None and self.grid.is_plain:
            max_chunks = max(1, TOGETHER // max(1, self.grid.chunk_bytes))
            for _, chunks in itertools.groupby(
                self.grid.intersecting(box), lambda chunk: self.grid.chunk_location(chunk)[0]
            ):
                while chunk_batch := [*itertools.islice(chunks, max_chunks)]:
                    yield partial(self._plain, chunk_batch, box, out)
            return
        for chunk in self.grid.intersecting(box):
            if self._is_elsewhere and self.grid.is_plain:
                # Parts make many requests at once, and each needs little memory.
                common = common_box(box, self.grid.box(chunk))
                for part in split_box(common, out.itemsize, self.span):
                    yield partial(self.read, chunk, part, out[inside_box(part, box)])
            else:
                yield partial(self.read, chunk, box, out)

    def read(self, chunk: tuple[int, ...], box: Box, out: Array) -> None:
        """Read the elements in the intersection of a box and a chunk.

        Args:
            chunk: index of the chunk along each axis.
            box: the box, in coordinates of the array.
            out: the array of the whole box, with elements of a `word`.

        Raises:
            ModelError: the chunk cannot be read or decoded.
        """
        if self.grid.is_plain:
            self._plain([chunk], box, out)
            return
        if not self._is_whole:
            common = common_box(box, self.grid.box(chunk))
            out[inside_box(common, box)] = self._elements(common)
            return
        inside, target = self._common(chunk, box, out)
        with self._lent() as flat:
            target[...] = self._decode_whole(chunk, flat)[tuple(slice(a, e) for a, e in inside)]

    def _common(self, chunk: tuple[int, ...], box: Box, out: Array) -> tuple[Box, Array]:
        """Return the intersection of a box and a chunk, in the chunk's coordinates and as part of the box's array."""
        chunk_box = self.grid.box(chunk)
        common = common_box(box, chunk_box)
        inside = tuple((a - b[0], e - b[0]) for (a, e), b in zip(common, chunk_box, strict=True))
        return inside, out[inside_box(common, box)]

    def _lent(self) -> AbstractContextManager[Array | None]:
        """Return a buffer for a decoded chunk, since the allocator would keep more memory than a plan may take."""
        return nullcontext() if self._decoder is None else self._buffers.lent(self._decoder.size)

    def _spilled_reads(self, spilled: SpilledChunks, block_number: int, box: Box, out: Array) -> Iterator[Task]:
        """Yield tasks that read a box, and keep its chunks for later boxes."""
        ranges = [range(*self.grid.span(axis, *interval)) for axis, interval in enumerate(box)]
        max_bytes = max(self.span, min(KEPT_READ, 2 * self.grid.chunk_bytes))
        run, start, end = list[Box](), 0, 0
        for chunk in itertools.product(*ranges):
            if not spilled.is_spilled(block_number, chunk):
                yield partial(self._spill, spilled, block_number, chunk, box, out)
                continue
            offset = spilled.offset_of(block_number, chunk)
            for part in split_box(common_box(box, self.grid.box(chunk)), out.itemsize, max_bytes):
                size = size_of(part) * out.itemsize
                if run and (offset != end or end + size - start > max_bytes):
                    yield partial(self._read_spilled, spilled, block_number, start, end, run, box, out)
                    run = []
                start, end = start if run else offset, offset + size
                run.append(part)
                offset = end
        if run:
            yield partial(self._read_spilled, spilled, block_number, start, end, run, box, out)

    def release(self, block: int) -> None:
        """Forget the chunks that were spilled for a block, once it has been read."""
        if self._spilled is not None:
            self._spilled.release(block)

    def _spill(self, spilled: SpilledChunks, block_number: int, chunk: tuple[int, ...], box: Box, out: Array) -> None:
        """Decode a chunk, copy the elements that a box needs, and keep the chunk for later boxes."""
        chunk_box = self.grid.box(chunk)
        common = common_box(box, chunk_box)
        with spilled.lock(chunk):
            # Another box of the same block may have decoded the chunk.
            if not spilled.is_spilled(block_number, chunk):
                with self._lent() as flat:
                    elements = self._decode_whole(chunk, flat) if self._is_whole else self._elements(chunk_box)
                    spilled.spill(block_number, chunk, elements)
                    out[inside_box(common, box)] = elements[inside_box(common, chunk_box)]
                return
        offset = spilled.offset_of(block_number, chunk)
        for part in split_box(common, out.itemsize, self.span):
            size = size_of(part) * out.itemsize
            self._read_spilled(spilled, block_number, offset, offset + size, [part], box, out)
            offset += size

    def _read_spilled(
        self, spilled: SpilledChunks, block_number: int, start: int, end: int, run: Sequence[Box], box: Box, out: Array
    ) -> None:
        """Read parts of a box that are contiguous among the spilled chunks."""
        destinations = [out[inside_box(part, box)] for part in run]
        addresses = [address_of(destination) for destination in destinations]
        ends = [first + destination.nbytes for first, destination in zip(addresses, destinations, strict=True)]
        if (
            all(destination.flags.c_contiguous for destination in destinations)
            and addresses[1:] == ends[:-1]
            and out.flags.c_contiguous
        ):
            first = addresses[0] - address_of(out)
            spilled.read(block_number, as_bytes(out)[first : first + end - start], start)
            return
        with self._buffers.lent(end - start) as buffer:
            spilled.read(block_number, buffer.data, start)
            flat, position = buffer.view(out.dtype), 0
            for part, destination in zip(run, destinations, strict=True):
                destination[...] = flat[position : position + size_of(part)].reshape(sizes_of(part))
                position += size_of(part)

    def _run(self, run: Run, box: Box, out: Array) -> None:
        """Read the elements in the intersections of a box and chunks that are close to each other in a shard."""
        data = memoryview(b"")
        if run.end > run.start and isinstance(run.path, Address):
            try:
                data = run.path.read_range(run.start, run.end)[0]
            except OSError as error:
                raise self._error(run.chunks[0][0], error.strerror or str(error)) from None
        for chunk, offset, size in run.chunks:
            chunk_box = self.grid.box(chunk)
            common = common_box(box, chunk_box)
            if not size:
                out[inside_box(common, box)] = self._fill_values()
                continue
            piece = bytes(data[offset - run.start :][:size])
            if len(piece) != size:
                raise self._error(chunk, f"it is {len(piece)} bytes, but its index says {size}")
            with self._lent() as flat:
                out[inside_box(common, box)] = self._decode_bytes(chunk, piece, flat)[inside_box(common, chunk_box)]

    def _plain(self, chunks: Sequence[tuple[int, ...]], box: Box, out: Array) -> None:
        """Read the elements in the intersections of a box and plain chunks, all of one file."""
        file: PlainFile | ObjectFile | None = None
        with ExitStack() as opened:
            for chunk in chunks:
                inside, target = self._common(chunk, box, out)
                sizes, offset = self.grid.sizes(chunk), 0
                size = math.prod(sizes) * self._word.itemsize
                try:
                    if self._shards is not None:
                        if (interval := self._shards.chunk_location(chunk)) is None:
                            target[...] = self._fill_values()
                            continue
                        offset, length = interval
                        if length != size:
                            raise self._error(chunk, f"it must be {size} bytes, not {length}, as its index says")
                    file = file or self._open(opened, chunk, size)
                    read_box(file, offset, sizes, inside, target, self.span, self._buffers)
                except FileNotFoundError:
                    target[...] = self._fill_values()
                except ModelError:
                    raise
                except (OSError, ValueError) as error:
                    raise self._error(chunk, getattr(error, "strerror", None) or str(error)) from None

    def _open(self, opened: ExitStack, chunk: tuple[int, ...], size: int) -> PlainFile | ObjectFile:
        """Open the file of a chunk that has so many bytes, until the end of a context."""
        name = self.grid.name(chunk)
        if isinstance(self.path, Address):
            return ObjectFile(self.path / name, size if self._shards is None else None)
        # A string, because Python keeps the parts of every `Path`, which would be one per chunk.
        file = opened.enter_context(PlainFile(os.path.join(self.path, name)))
        if self._shards is None and (length := os.fstat(file.descriptor).st_size) != size:
            raise self._error(chunk, f"it must be {size} bytes, not {length}")
        return file

    def _decode_whole(self, chunk: tuple[int, ...], flat: Array | None) -> Array:
        """Return a whole chunk, perhaps in a buffer."""
        if not self.grid.is_own:
            return self._read_alone(chunk)
        try:
            path = self.path / self.grid.name(chunk)
            data = path.read_bytes() if self._shards is None else self._shards.read(chunk)
        except FileNotFoundError:
            return np.broadcast_to(self._fill_values(), self.grid.sizes(chunk)).copy()
        except (OSError, ValueError) as error:
            raise self._error(chunk, getattr(error, "strerror", None) or str(error)) from None
        return self._decode_bytes(chunk, data, flat)

    def _decode_bytes(self, chunk: tuple[int, ...], data: bytes, flat: Array | None) -> Array:
        """Decode a whole chunk from its bytes, perhaps into a buffer."""
        try:
            view = np.frombuffer(data if self._decoder is None else self._decoder.decode(data, flat), np.uint8)
        except Exception as error:
            # Codecs raise errors of any type.
            raise_if_short(error)
            raise self._error(chunk, str(error)) from None
        sizes = self.grid.sizes(chunk)
        if view.size != (size := math.prod(sizes) * self._word.itemsize):
            raise self._error(chunk, f"it must be {size} bytes, not {view.size}")
        return view.view(self._word).reshape(sizes)

    def _read_alone(self, chunk: tuple[int, ...]) -> Array:
        """Read a whole chunk by zarr-python, as a separate array."""
        try:
            with suppress(FileNotFoundError):
                data = (self.path / self.grid.name(chunk)).read_bytes()
                elements = decode_chunk(self._metadata, self.grid.sizes(chunk), data)
                return np.ascontiguousarray(elements, self.grid.dtype).reshape(elements.shape).view(self._word)
        except Exception as error:
            # Codecs raise errors of any type.
            raise_if_short(error)
            raise self._error(chunk, getattr(error, "strerror", None) or str(error)) from None
        return np.broadcast_to(self._fill_values(), self.grid.sizes(chunk)).copy()

    def _elements(self, box: Box) -> Array:
        """Read a box by zarr-python."""
        try:
            with unwarned():
                elements = np.asarray(self._array[tuple(slice(a, e) for a, e in box)])
        except Exception as error:
            # Codecs raise errors of any type.
            raise_if_short(error)
            raise Location(str(self.path)).error(f"cannot be read: {str(error)[:200]}") from None
        elements_in_order = np.ascontiguousarray(elements, self.grid.dtype)
        return elements_in_order.reshape([e - a for a, e in box]).view(self._word)

    def _fill_values(self) -> Array:
        return np.frombuffer(self.grid.fill, self._word)[0]  # type: ignore[no-any-return]

    def _error(self, chunk: Sequence[int], reason: str) -> Exception:
        subject = f"chunk {[*chunk]} of a shard" if self.grid.shard is not None else "a chunk"
        return Location(str(self.path / self.grid.name(chunk))).error(f"cannot be read as {subject}: {reason[:200]}")


def _array_of(store: Store | ZarrStore) -> Any:
    """Return the array of zarr-python."""
    if not isinstance(store, ZarrStore):
        raise AssertionError("arrays in plain files have no codecs")
    return zarr_array(store.path, store.metadata)
