"""Zarr arrays that a plan is to write: their metadata are known before anything is written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anydml.files.json_path import JsonPath
from anydml.stores.zarr_format import InChunks, ZarrStore, layout_of, require_zarr, zarr_array
from anydml.text import counted

DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute by which xarray names the axes of arrays of version 2."""

HIGHEST = {"zstd": 22, "gzip": 9, "blosc": 9}
"""Codecs, and their highest levels."""


@dataclass(frozen=True, slots=True, eq=False)
class ZarrTarget(InChunks):
    """A Zarr array to be written.

    Attributes:
        path: its folder.
        layout: how it will lie in chunks.
        metadata: the text of each file that describes it, by name.

    Examples:
        >>> from anydml import stores
        >>> target = stores.create("new.zarr", shape=[2, 3], dtype="float32")
        >>> type(target).__name__, target.shape
        ('ZarrTarget', (2, 3))
    """

    def __repr__(self) -> str:
        return f"<target {str(self.path)!r}: {self.dtype} {self.shape} in chunks {self.chunks}>"


def new_zarr(
    path: Path,
    shape: Sequence[int],
    dtype: Any,
    chunks: Sequence[int] | None = None,
    like: Any = None,
    codec: str | None = None,
    axes: Sequence[int] | None = None,
) -> ZarrTarget:
    """Describe a Zarr array.

    Args:
        path: its folder.
        shape: sizes.
        dtype: of the elements.
        chunks: sizes of a chunk; by default those of `like` where it has this shape, else Zarr's choice.
        like: a `ZarrStore` whose version, codecs, fill value, names of axes and attributes are kept.
        codec: ``none``, ``zstd``, ``gzip`` or ``blosc``, with a level behind a colon if need be; by default `like`'s,
            or Zarr's choice.
        axes: which of `like`'s axes each axis is; by default they are the same.

    Raises:
        ModelError: Zarr has no such array, or zarr-python is not installed.
    """
    place = JsonPath(str(path))
    zarr = require_zarr(place)
    if chunks is not None and (
        len(chunks) != len(shape) or any(not isinstance(n, (int, np.integer)) or n < 1 for n in chunks)
    ):
        raise place.error(
            f"chunks are {tuple(chunks)}, where {counted(len(shape), 'size')} from 1 are expected, "
            f"one an axis of {tuple(shape)}"
        )
    options: dict[str, Any] = {"shape": tuple(shape), "dtype": np.dtype(dtype)}
    if isinstance(like, ZarrStore):
        options |= _kept(like, tuple(shape), [*range(len(shape))] if axes is None else [*axes], chunks is None)
    if chunks is not None:
        # A chunk is no larger than the array.
        options["chunks"] = tuple(max(1, min(int(n), int(size))) for n, size in zip(chunks, shape, strict=True))
    if options.get("zarr_format", 3) == 3 and not options["dtype"].isnative:
        # The name of a dtype of version 3 does not say in which order its bytes are; the codec before all others does.
        endian = "little" if sys.byteorder == "big" else "big"
        options.setdefault("serializer", zarr.codecs.BytesCodec(endian=endian))
    if codec is not None:
        options["compressors"] = _compressors(codec, options.get("zarr_format", 3), place)
    files: dict[str, Any] = {}
    try:
        array = zarr.create_array(store=zarr.storage.MemoryStore(files), **options)
        layout = layout_of(array)
    except (TypeError, ValueError, KeyError) as error:
        raise place.error(f"cannot be a Zarr array of {options['dtype']} {tuple(shape)}: {str(error)[:200]}") from None
    return ZarrTarget(path, layout, {name: text.to_bytes() for name, text in files.items()})


def _kept(like: ZarrStore, shape: tuple[int, ...], axes: list[int], are_chunks_kept: bool) -> dict[str, Any]:
    """What an array takes over from another."""
    array = zarr_array(like.path)
    is_same = axes == [*range(array.ndim)]
    found: dict[str, Any] = {"zarr_format": like.layout.version, "compressors": array.compressors}
    found["fill_value"] = array.fill_value
    if array.filters and (is_same or all(not hasattr(each, "order") for each in array.filters)):
        found["filters"] = array.filters
    attributes = dict(array.attrs)
    if len(attributes.get(DIMENSIONS) or ()) == array.ndim:
        attributes[DIMENSIONS] = [attributes[DIMENSIONS][k] for k in axes]
    found["attributes"] = attributes
    if like.layout.version == 3:
        if array.metadata.dimension_names is not None:
            found["dimension_names"] = [array.metadata.dimension_names[k] for k in axes]
        found["serializer"] = array.serializer
        found["chunk_key_encoding"] = array.metadata.chunk_key_encoding.to_dict()
    else:
        separator = like.layout.separator
        found["chunk_key_encoding"] = {"name": "v2", "separator": separator}
        found["order"] = array.order
    if are_chunks_kept and len(axes) == array.ndim:
        found["chunks"] = tuple(array.chunks[k] for k in axes)
        if array.shards is not None:
            found["shards"] = tuple(array.shards[k] for k in axes)
    return found


def _compressors(codec: str, version: int, place: JsonPath) -> Any:
    name, colon, level = codec.partition(":")
    if name not in ("none", *HIGHEST) or (colon and (not level.isdecimal() or len(level) > 3)):
        raise place.error(f"codec is {codec!r:.40}, where none, zstd, gzip or blosc is expected, such as zstd:3")
    if name == "none":
        return None
    if level and int(level) > HIGHEST[name]:
        raise place.error(f"codec is {codec!r:.40}, but levels of {name} end at {HIGHEST[name]}")
    if version == 2:
        import numcodecs

        options = {"clevel" if name == "blosc" else "level": int(level)} if level else {}
        return numcodecs.get_codec({"id": name, **options})
    import zarr.codecs

    kinds = {"zstd": zarr.codecs.ZstdCodec, "gzip": zarr.codecs.GzipCodec, "blosc": zarr.codecs.BloscCodec}
    return kinds[name](**({"clevel" if name == "blosc" else "level": int(level)} if level else {}))
