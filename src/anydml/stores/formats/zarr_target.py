"""Zarr arrays that a plan will write, with complete metadata."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anydml.files.location import Location
from anydml.functions.argument_conversion import is_movable
from anydml.stores.formats.block_types import name_of
from anydml.stores.formats.packing import ICECHUNK, check_packed
from anydml.stores.formats.zarr_array import MAX_BYTES, ZarrFolder, ZarrStore, layout_of, require_zarr
from anydml.stores.formats.zarr_codecs import coder_of, raise_if_short
from anydml.stores.formats.zarr_compressors import compressors_of
from anydml.stores.formats.zarr_in_memory import in_memory
from anydml.stores.formats.zarr_metadata import RequestedLayout, changed, of_dtype, smallest
from anydml.stores.formats.zarr_rectilinear import edges_given, readable, with_edges
from anydml.stores.formats.zarr_strings import holds_strings, strings_of
from anydml.stores.formats.zarr_versions import in_version
from anydml.stores.formats.zarr_warnings import unwarned
from anydml.text import count_noun

ChunkSizes = Sequence[int | Sequence[int]]
"""Sizes of a chunk, one per axis; or all sizes along an axis."""


@dataclass(frozen=True, slots=True, eq=False)
class ZarrTarget(ZarrFolder):
    """A Zarr array that a plan will write.

    Attributes:
        path: the folder of the array.
        layout: the grid of chunks.
        metadata: contents of the files that describe it, by name.

    Examples:
        >>> from anydml import stores
        >>> target = stores.create("new.zarr", shape=[2, 3], dtype="float32")
        >>> type(target).__name__, target.shape
        ('ZarrTarget', (2, 3))
    """

    def __repr__(self) -> str:
        return f"<target {str(self.path)!r}: {name_of(self.dtype)} {self.shape} in chunks {self.chunks}>"


def new_zarr(
    path: Path,
    shape: Sequence[int],
    dtype: Any,
    chunks: ChunkSizes | None = None,
    like: Any = None,
    codec: str | None = None,
    axes: Sequence[int] | None = None,
    shards: Sequence[int] | None = None,
    version: int | None = None,
) -> ZarrTarget:
    """Describe a Zarr array, after a trial of its codecs on one element.

    Args:
        path: the folder of the array.
        shape: sizes.
        dtype: the dtype of the elements.
        chunks: sizes of a chunk, −1 for a whole axis; each may be a list of all sizes along its axis. By default those
            of `like` where it has these axes, else Zarr's choice.
        like: a `ZarrStore`, whose metadata are kept except for what is given.
        codec: as in `anydml.stores.create`; by default that of `like`, or Zarr's choice.
        axes: the axis of `like` that each axis was; by default the same where there are as many.
        shards: sizes of a shard, −1 for a whole axis, empty for none; by default those of `like`, rounded up to whole
            chunks, or none.
        version: the version of the format, 2 or 3; by default that of `like`, or 3.

    Raises:
        ModelError: Zarr has no such array, its codecs do not work, or zarr-python is not installed.
        MemoryError: there is not enough memory, or no thread can be started.
    """
    location = Location(str(path))
    require_zarr(location)
    written = version or (like.layout.version if isinstance(like, ZarrStore) else 3)
    check_packed(path, written, location)
    chunks = None if chunks is None else _whole_axes(chunks, shape)
    edges = _edges(chunks, shape, like, axes, location)
    if edges is None:
        sizes: Any = chunks
        return _regular(path, shape, dtype, sizes, like, codec, axes, shards, version)
    if shards or written == 2 or path.suffix.lower() == ICECHUNK:
        raise location.error(
            "would have chunks of several sizes, which shards, version 2 of Zarr and Icechunk do not support: give one "
            "size per axis by --chunks (chunks=)"
        )
    if chunks is not None and shards is None and isinstance(like, ZarrStore) and like.layout.is_sharded:
        raise location.error(
            f"would have chunks of several sizes, and so no shards, as {like.path} has: say --shards none (shards=())"
        )
    if chunks is None:
        target = _regular(path, shape, dtype, None, like, codec, axes, None, version)
    else:
        # Given chunks are files: shards would need the sizes of the chunks inside, too.
        largest = [max(map(int.__sub__, axis_edges[1:], axis_edges)) for axis_edges in edges]
        target = _regular(path, shape, dtype, largest, like, codec, axes, (), version)
    return replace(
        target, layout=target.layout.with_one_chunk_per_file(edges), metadata=with_edges(target.metadata, edges)
    )


def _whole_axes(chunks: ChunkSizes, shape: Sequence[int]) -> list[int | Sequence[int]]:
    """Return chunks with sizes in place of −1, and with 1 for the whole of an empty axis."""
    if len(chunks) != len(shape):
        return [*chunks]
    return [
        max(1, size) if not hasattr(n, "__len__") and (n == -1 or n == size == 0) else n
        for n, size in zip(chunks, shape, strict=True)
    ]


def _check_sizes(
    name: str, requested: Sequence[Any], shape: Sequence[int], special_sizes: Sequence[int], location: Location
) -> None:
    """Check the sizes of chunks or shards; sizes in `special_sizes` stand for a whole axis.

    Raises:
        ModelError: the sizes are not one positive integer per axis.
    """
    if len(requested) != len(shape):
        raise location.error(
            f"{name} has {count_noun(len(requested), 'size')}, {tuple(requested)}, but the array has "
            f"{count_noun(len(shape), 'axis')}, {tuple(shape)}: give one size per axis"
        )
    if any(not isinstance(n, (int, np.integer)) or not (1 <= n < MAX_BYTES or n in special_sizes) for n in requested):
        raise location.error(
            f"{name} is {tuple(requested)}: each size must be 1 or more, and below 2⁶², or −1 for the whole axis"
        )


def _regular(
    path: Path,
    shape: Sequence[int],
    dtype: Any,
    chunks: Sequence[int] | None,
    like: Any,
    codec: str | None,
    axes: Sequence[int] | None,
    shards: Sequence[int] | None,
    version: int | None,
) -> ZarrTarget:
    """Like `new_zarr`, with chunks of one size."""
    location, dtype = Location(str(path)), np.dtype(dtype)
    if not is_movable(dtype) or dtype.subdtype is not None:
        raise location.error(f"cannot store dtype {dtype}: elements must be numbers, strings, records or plain bytes")
    if version not in (None, 2, 3):
        raise location.error(f"has version {version!r:.40} of the format, which must be 2 or 3")
    for name, requested, special_sizes in (("chunks", chunks, ()), ("shards", shards or None, (-1,))):
        if requested is not None:
            _check_sizes(name, requested, shape, special_sizes, location)
    version = version or (like.layout.version if isinstance(like, ZarrStore) else 3)
    of_bytes = np.dtype("u1") if holds_strings(dtype) else dtype
    compressors = None if codec is None else compressors_of(codec, version, of_bytes, location)
    try:
        if not isinstance(like, ZarrStore):
            metadata, axes = _plain(shape, dtype, version, chunks), range(len(shape))
        else:
            metadata = in_version(readable(like.metadata), version, compressors is None)
            if like.dtype != dtype:
                fill = np.frombuffer(like.layout.fill, like.dtype)[0]
                metadata = of_dtype(metadata, _plain((), dtype, version, (), fill_value=fill))
            if axes is None and len(shape) == like.ndim:
                axes = range(like.ndim)
            if axes is None and chunks is None:
                chunks = in_memory(_plain(shape, dtype, 3, None)).chunks
        files = changed(metadata, shape, RequestedLayout(axes, chunks, shards, compressors))
        layout = layout_of(in_memory(files), path)
        if layout.dtype != dtype and layout.dtype.newbyteorder("<") == dtype.newbyteorder("<"):
            # Codecs of shards, or fields of records, may have other byte orders, to which elements are converted.
            fill = np.frombuffer(layout.fill, layout.dtype).astype(dtype).tobytes()
            layout = replace(layout, chunk=layout.file, shard=None, index=None)
            layout = replace(layout, dtype=dtype, fill=fill, codec=None, is_own=False)
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
        raise_if_short(error)
        raise location.error(f"cannot be a Zarr array of {name_of(dtype)} {tuple(shape)}: {str(error)[:200]}") from None
    _check_codecs(files, location)
    return ZarrTarget(path, layout, files)


def _edges(
    chunks: ChunkSizes | None, shape: Sequence[int], like: Any, axes: Sequence[int] | None, location: Location
) -> tuple[tuple[int, ...], ...] | None:
    """Return where chunks of several sizes begin: as given, or as in an array of the same shape."""
    if chunks is not None:
        if len(chunks) != len(shape) or not any(hasattr(chunk, "__len__") for chunk in chunks):
            return None
        try:
            return edges_given(chunks, shape)
        except ValueError as error:
            raise location.error(f"cannot have these chunks: {error}") from None
    if not isinstance(like, ZarrStore) or like.layout.edges is None:
        return None
    kept_axes = range(like.ndim) if axes is None and len(shape) == like.ndim else axes
    if kept_axes is None or [like.shape[k] for k in kept_axes] != [*shape]:
        raise location.error(
            f"would have chunks of several sizes, as {like.path} has, but other axes: give sizes by --chunks (chunks=)"
        )
    return tuple(like.layout.edges[k] for k in kept_axes)


def _plain(
    shape: Sequence[int], dtype: np.dtype[Any], version: int, chunks: Sequence[int] | None, **keywords: Any
) -> dict[str, bytes]:
    """Return metadata by Zarr's choice."""
    import zarr

    if holds_strings(dtype):
        dtype = np.dtypes.StringDType()
        if "fill_value" in keywords:
            keywords["fill_value"] = str(strings_of(np.asarray(keywords["fill_value"]))[()])
    if version == 3 and not dtype.isnative:
        # The byte order of version 3 is not in the dtype, but in the first codec.
        keywords["serializer"] = zarr.codecs.BytesCodec(endian="little" if sys.byteorder == "big" else "big")
    files: dict[str, Any] = {}
    zarr.create_array(
        store=zarr.storage.MemoryStore(files), shape=tuple(shape), dtype=dtype, zarr_format=version,
        chunks="auto" if chunks is None else tuple(chunks), **keywords,
    )  # fmt: skip
    return {name: text.to_bytes() for name, text in files.items()}


def _check_codecs(files: Mapping[str, bytes], location: Location) -> None:
    """Encode and decode an element.

    Raises:
        ModelError: a codec does not exist, or does not work.
    """
    try:
        with unwarned():
            array = in_memory(smallest(files)).with_config({"write_empty_chunks": True})
            array[...] = np.zeros((), array.dtype)
            array[...]
        layout = layout_of(array, Path())
        if layout.is_own and layout.codec is not None:
            coder = coder_of(layout.codec)
            coder.decode(coder.encode(np.zeros(1, layout.dtype)))
    except Exception as error:
        # Libraries of codecs may raise any error.
        raise_if_short(error)
        raise location.error(
            f"cannot be written, for its codecs do not work ({type(error).__name__}: {str(error)[:200]}): name another "
            "by --codec (codec=)"
        ) from None
