"""Chunks of arrays: read as boxes, decoded once where blocks share them, encoded and written."""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.json_path import JsonPath
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array, Store
from anydml.stores.formats.zarr_array import ZarrStore, zarr_array
from anydml.stores.formats.zarr_codecs import Decoder, bounded, coder_of, raise_if_short
from anydml.stores.formats.zarr_in_memory import decoded, encoded
from anydml.stores.formats.zarr_metadata import has_fill_value
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.formats.zarr_warnings import unwarned
from anydml.stores.planning.block_shapes import cut_first, offset_of, parts, word
from anydml.stores.running.buffers import Buffers
from anydml.stores.running.files import PlainFile, Task, open_file
from anydml.stores.running.objects import ObjectFile
from anydml.stores.running.plain_arrays import as_bytes, read_box
from anydml.stores.running.read_back import ReadBack
from anydml.stores.running.shards import Run, ShardReader, ShardWriter
from anydml.tensor import Layout

LOCKS = 64
"""Most chunks that are decoded at once, each by one thread."""


class ChunkReader:
    """Reads boxes of an array.

    Args:
        store: the array.
        span: most bytes of a request with unneeded bytes.
        kept_in: the folder of an unnamed file for decoded chunks; None where they are not kept.
        buffers: for what does not come as it is needed.
        file: the plain file that holds the array; None if it lies in chunks.
    """

    def __init__(
        self,
        store: Store | ZarrStore,
        span: int,
        kept_in: Path | None,
        buffers: Buffers,
        file: PlainFile | None = None,
    ) -> None:
        self._buffers = buffers
        self.path, self.layout, self.span, self._file = store.path, store.layout, span, file
        self._is_elsewhere = isinstance(store.path, Address)
        self._word = word(store.dtype.itemsize)
        codec = self.layout.codec if self.layout.is_own else None
        self._decoder = None if codec is None else Decoder(codec, self.layout.chunk_bytes)
        self._metadata = store.metadata if isinstance(store, ZarrStore) else {}
        self._is_whole = self.layout.is_own or self.layout.is_alone
        with unwarned():
            self._array: Any = None if self._is_whole else bounded(_array_of(store))
        self._counts = self.layout.counts
        self._shards = None if self.layout.shard is None else ShardReader(store.path, self.layout)
        self._kept: _Kept | None = None if kept_in is None or self.layout.is_plain else _Kept(kept_in)

    def close(self) -> None:
        """Delete the decoded chunks."""
        if self._kept is not None:
            self._kept.close()

    def reads(self, box: Box, out: Array) -> Iterator[Task]:
        """Tasks that read a box.

        Args:
            box: in coordinates of the array, in row-major order.
            out: of the shape of the box, with elements of a `word`.
        """
        if self._file is not None:
            for part in parts(box, out.itemsize, self.span if self._is_elsewhere else max(self.span, 1 << 20)):
                own = out[_inside(part, box)]
                yield partial(
                    read_box, self._file, self.layout.offset, self.layout.shape, part, own, self.span, self._buffers
                )
            return
        if self._shards is not None and self._is_elsewhere and self._kept is None:
            for run in self._shards.runs(box, self.span):
                yield partial(self._run, run, box, out)
            return
        for chunk in self.layout.near(box):
            if self._is_elsewhere and self.layout.is_plain:
                # So that many requests are made at once, and none takes much memory.
                common = common_box(box, self.layout.box(chunk))
                for part in parts(common, out.itemsize, self.span):
                    yield partial(self.read, chunk, part, out[_inside(part, box)])
            else:
                yield partial(self.read, chunk, box, out)

    def read(self, chunk: tuple[int, ...], box: Box, out: Array) -> None:
        """Read the elements that a box has in common with a chunk.

        Args:
            chunk: index of the chunk along each axis.
            box: in coordinates of the array.
            out: the whole box, with elements of a `word`.

        Raises:
            ModelError: the chunk cannot be read or decoded.
        """
        chunk_box = self.layout.box(chunk)
        common = common_box(box, chunk_box)
        target = out[_inside(common, box)]
        inside = tuple((a - b[0], e - b[0]) for (a, e), b in zip(common, chunk_box, strict=True))
        if self.layout.is_plain:
            self._plain(chunk, inside, target)
            return
        if self._kept is None:
            target[...] = self._decoded(chunk)[tuple(slice(a, e) for a, e in inside)] \
                if self._is_whole else self._elements(common)  # fmt: skip
            return
        number = int(np.ravel_multi_index(chunk, self._counts)) if chunk else 0
        with self._kept.lock(number):
            at, order = number * self.layout.chunk_bytes, self._kept.orders.get(number)
            if order is not None:
                sizes = self.layout.sizes(chunk)
                shape, own_box = tuple(sizes[k] for k in order), tuple(inside[k] for k in order)
                permuted = target.transpose(order)
                for part in parts(own_box, target.itemsize, self.span):
                    read_box(
                        self._kept.file, at, shape, part, permuted[_inside(part, own_box)], self.span, self._buffers
                    )
                return
            whole = self._decoded(chunk) if self._is_whole else self._padded(chunk_box)
            self._kept.keep(number, at, whole, cut_first(common, chunk_box), self.span)
        target[...] = whole[tuple(slice(a, e) for a, e in inside)]

    def _run(self, run: Run, box: Box, out: Array) -> None:
        """Read the elements that a box has in common with chunks that lie close to each other in a shard."""
        data = memoryview(b"")
        if run.end > run.start and isinstance(run.path, Address):
            try:
                data = run.path.read_range(run.start, run.end)[0]
            except OSError as error:
                raise self._error(run.chunks[0][0], error.strerror or str(error)) from None
        for chunk, at, size in run.chunks:
            chunk_box = self.layout.box(chunk)
            common = common_box(box, chunk_box)
            if not size:
                out[_inside(common, box)] = self._filled()
                continue
            piece = bytes(data[at - run.start :][:size])
            if len(piece) != size:
                raise self._error(chunk, f"it is {len(piece)} bytes, where its index says {size}")
            out[_inside(common, box)] = self._unpacked(chunk, piece)[_inside(common, chunk_box)]

    def _plain(self, chunk: tuple[int, ...], inside: Box, target: Array) -> None:
        sizes = self.layout.sizes(chunk)
        path, size, at = self.path / self.layout.name(chunk), math.prod(sizes) * self._word.itemsize, 0
        try:
            if self._shards is not None:
                if (interval := self._shards.place(chunk)) is None:
                    target[...] = self._filled()
                    return
                at, length = interval
                if length != size:
                    raise self._error(chunk, f"it is {length} bytes by its index, where {size} are expected")
            if isinstance(path, Address):
                whole = ObjectFile(path, size if self._shards is None else None)
                read_box(whole, at, sizes, inside, target, self.span, self._buffers)
                return
            file = PlainFile(path)
        except FileNotFoundError:
            target[...] = self._filled()
            return
        except ModelError:
            raise
        except (OSError, ValueError) as error:
            raise self._error(chunk, getattr(error, "strerror", None) or str(error)) from None
        with file:
            if self._shards is None and (length := os.fstat(file.descriptor).st_size) != size:
                raise self._error(chunk, f"it is {length} bytes, where {size} are expected")
            read_box(file, at, sizes, inside, target, self.span, self._buffers)

    def _decoded(self, chunk: tuple[int, ...]) -> Array:
        """A whole chunk."""
        if not self.layout.is_own:
            return self._alone(chunk)
        try:
            path = self.path / self.layout.name(chunk)
            data = path.read_bytes() if self._shards is None else self._shards.read(chunk)
        except FileNotFoundError:
            return np.broadcast_to(self._filled(), self.layout.sizes(chunk)).copy()
        except (OSError, ValueError) as error:
            raise self._error(chunk, getattr(error, "strerror", None) or str(error)) from None
        return self._unpacked(chunk, data)

    def _unpacked(self, chunk: tuple[int, ...], data: bytes) -> Array:
        """A whole chunk from its bytes."""
        try:
            view = np.frombuffer(data if self._decoder is None else self._decoder.decode(data), np.uint8)
        except Exception as error:
            # Codecs raise any error of their libraries.
            raise_if_short(error)
            raise self._error(chunk, str(error)) from None
        sizes = self.layout.sizes(chunk)
        if view.size != (size := math.prod(sizes) * self._word.itemsize):
            raise self._error(chunk, f"it is {view.size} bytes, where {size} are expected")
        return view.view(self._word).reshape(sizes)

    def _alone(self, chunk: tuple[int, ...]) -> Array:
        """A whole chunk, read by zarr-python as an array of its own."""
        try:
            with suppress(FileNotFoundError):
                data = (self.path / self.layout.name(chunk)).read_bytes()
                elements = decoded(self._metadata, self.layout.sizes(chunk), data)
                return np.ascontiguousarray(elements, self.layout.dtype).reshape(elements.shape).view(self._word)
        except Exception as error:
            # Codecs raise any error of their libraries.
            raise_if_short(error)
            raise self._error(chunk, getattr(error, "strerror", None) or str(error)) from None
        return np.broadcast_to(self._filled(), self.layout.sizes(chunk)).copy()

    def _elements(self, box: Box) -> Array:
        """A box, read by zarr-python."""
        try:
            with unwarned():
                elements = np.asarray(self._array[tuple(slice(a, e) for a, e in box)])
        except Exception as error:
            # Codecs raise any error of their libraries.
            raise_if_short(error)
            raise JsonPath(str(self.path)).error(f"cannot be read: {str(error)[:200]}") from None
        stored = np.ascontiguousarray(elements, self.layout.dtype)
        return stored.reshape([e - a for a, e in box]).view(self._word)

    def _padded(self, chunk_box: Box) -> Array:
        whole = np.empty(self.layout.chunk, self._word)
        whole[tuple(slice(0, e - a) for a, e in chunk_box)] = self._elements(chunk_box)
        return whole

    def _filled(self) -> Array:
        return np.frombuffer(self.layout.fill, self._word)[0]  # type: ignore[no-any-return]

    def _error(self, chunk: Sequence[int], why: str) -> Exception:
        what = f"chunk {[*chunk]} of a shard" if self.layout.shard is not None else "a chunk"
        return JsonPath(str(self.path / self.layout.name(chunk))).error(f"cannot be read as {what}: {why[:200]}")


def _array_of(store: Store | ZarrStore) -> Any:
    """The array of zarr-python."""
    if not isinstance(store, ZarrStore):
        raise AssertionError("arrays in plain files have no codecs")
    return zarr_array(store.path, store.metadata)


def common_box(one: Box, other: Box) -> Box:
    """What two boxes have in common."""
    return tuple((max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(one, other, strict=True))


def _inside(part: Box, box: Box) -> Any:
    """The index of a part in an array of a box."""
    return (*(slice(a - low, b - low) for (a, b), (low, _) in zip(part, box, strict=True)), ...)


class _Kept:
    """An unnamed file with decoded chunks at offsets by their numbers."""

    def __init__(self, folder: Path) -> None:
        self._held = tempfile.TemporaryFile(prefix=".anydml-", dir=folder)  # noqa: SIM115  # closed by `close`
        self.file = PlainFile(folder, True, False, self._held.fileno())
        self.orders: dict[int, tuple[int, ...]] = {}
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    def keep(self, number: int, at: int, whole: Array, order: tuple[int, ...], max_bytes: int) -> None:
        """Write a chunk with its axes in another order, so that what one block needs of it is one run."""
        permuted = whole.transpose(order)
        strides = Layout.packed(permuted.shape, whole.itemsize).strides
        for part in parts(tuple((0, size) for size in permuted.shape), whole.itemsize, max_bytes):
            piece = np.ascontiguousarray(permuted[tuple(slice(*interval) for interval in part)])
            self.file.write(as_bytes(piece), at + offset_of(part, strides))
        self.orders[number] = order

    def lock(self, number: int) -> threading.Lock:
        """The lock of a chunk, for decoding and reading it."""
        return self._locks[number % LOCKS]

    def close(self) -> None:
        self._held.close()


class ChunkWriter:
    """Writes chunks of a Zarr array.

    Args:
        target: the array.
        folder: where it lies until it gets its name.
        scratch: a folder of this machine, in which shards for an address are put together.
    """

    def __init__(self, target: ZarrTarget, folder: Path, scratch: Path) -> None:
        layout = target.layout
        self.layout, self.folder = layout, folder
        self._coder = coder_of(layout.codec) if layout.is_own and layout.codec is not None else None
        self._metadata = target.metadata
        self._made: set[Path] = set()
        self._back = ReadBack(layout, folder, target.metadata)
        self._shards = None if layout.shard is None else ShardWriter(folder, layout, scratch)
        self.fill = layout.fill
        # Readers differ in what a chunk without a file has where there is no fill value.
        self._leaves_out = (self._shards is not None or not layout.is_own) and has_fill_value(target.metadata)

    def close(self) -> None:
        """Close shards that an error has left open."""
        if self._shards is not None:
            self._shards.close()

    def parts(self, box: Box) -> Iterator[tuple[tuple[int, ...], Box, tuple[int, ...]]]:
        """The chunks of a box, as `PlainWriter.parts`."""
        for chunk in self.layout.near(box):
            yield chunk, self.layout.box(chunk), self.layout.sizes(chunk)

    def _has_fill_alone(self, flat: Array) -> bool:
        """Whether all elements have the bytes of the fill value, as chunks have that are left out of shards."""
        # As integers, for numbers that are equal may have other bytes.
        size = len(self.fill)
        kind = np.dtype(np.uint64 if size % 8 == 0 else f"u{size}" if size in (1, 2, 4) else np.uint8)
        fill = np.frombuffer(self.fill, kind)
        rows = flat.view(kind).reshape(-1, fill.size)
        return bool(rows.size) and bool((rows[0] == fill).all()) and bool((rows == fill).all())

    def write(self, chunk: Sequence[int], flat: Array) -> None:
        """Write a whole chunk of bytes, which has fill values outside the array.

        Raises:
            ModelError: a codec refuses the elements, or other ones are read back.
        """
        layout, sizes = self.layout, self.layout.sizes(chunk)
        elements = flat.view(layout.dtype).reshape(sizes)
        path = self.folder / layout.name(chunk)
        try:
            # Of shards, and of what zarr-python encodes, chunks are left out that have fill values alone.
            is_left_out = self._leaves_out and self._has_fill_alone(flat)
            data = as_bytes(flat)
            if not layout.is_own and not is_left_out:
                data = memoryview(encoded(self._metadata, elements))
            elif self._coder is not None and not is_left_out:
                data = memoryview(self._coder.encode(elements))
        except (OSError, ModelError):
            raise
        except Exception as error:
            # Codecs raise any error of their libraries.
            raise_if_short(error)
            raise JsonPath(str(path)).error(f"cannot be encoded: {str(error)[:200]}") from None
        if self._shards is not None:
            seen = elements.copy() if self._back.is_read(chunk) else None
            for number, whole in self._shards.put(tuple(chunk), None if is_left_out else data.cast("B"), seen):
                self._back.check(number, whole)
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
