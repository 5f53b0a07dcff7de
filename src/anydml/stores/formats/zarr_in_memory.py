"""Zarr arrays in memory, by zarr-python: those of metadata alone, and those of one file of another array."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from anydml.stores.formats.store import Array
from anydml.stores.formats.zarr_codecs import bounded, raise_if_short
from anydml.stores.formats.zarr_shards import without_transposes
from anydml.stores.formats.zarr_strings import holds_strings, numbers_of, reserve_chunk, strings_of
from anydml.stores.formats.zarr_warnings import unwarned
from anydml.text import bytes_text


def open_quietly(function: Any, store: Any, mode: str) -> Any:
    """Open an array with zarr-python, without its warnings about metadata."""
    with unwarned():
        return function(store, mode=mode)


def memory_store(files: Mapping[str, bytes], contents: MutableMapping[str, Any] | None = None) -> Any:
    """Return zarr-python's store of files in memory, by name; `contents` gets its buffers."""
    import zarr
    from zarr.core.buffer import default_buffer_prototype

    to_buffer, contents = default_buffer_prototype().buffer.from_bytes, {} if contents is None else contents
    contents.update({name: to_buffer(text) for name, text in files.items()})
    return zarr.storage.MemoryStore(contents)


def in_memory(files: Mapping[str, bytes], contents: MutableMapping[str, Any] | None = None) -> Any:
    """Return zarr-python's array in a `memory_store` of files: metadata, and perhaps chunks."""
    import zarr

    return open_quietly(zarr.open_array, memory_store(files, contents), "r+")


def decode_chunk(metadata: Mapping[str, bytes], sizes: Sequence[int], data: bytes) -> Array:
    """Return the elements of a file that holds a whole chunk or shard.

    Args:
        metadata: contents of the files that describe its array, by name.
        sizes: the sizes of the chunk or shard.
        data: the bytes of the chunk.

    Raises:
        Exception: any error of a codec's library.
    """
    files, name, order = _alone(metadata, sizes)
    with unwarned():
        array = in_memory({**files, name: data})
        elements = _decoded_strings(array) if array.dtype.kind == "T" else np.asarray(bounded(array)[...])
    return elements.transpose(np.argsort(order))


def _decoded_strings(array: Any) -> Array:
    """Return the strings of an array of one chunk, as numbers."""
    with reserve_chunk(math.prod(array.shape)) as max_bytes:
        try:
            strings = np.asarray(bounded(array, max_bytes)[...], array.dtype)
        except Exception as error:
            raise_if_short(error)
            if max_bytes is None:
                raise
            hint = f"with this memory, its texts may have {bytes_text(max_bytes)}, and with more memory more"
            raise ValueError(f"{str(error)[:100]} ({hint})") from error
        return numbers_of(strings)


def encode_chunk(metadata: Mapping[str, bytes], elements: Array) -> bytes:
    """Return the bytes of a file for a whole chunk or shard.

    Codecs of numcodecs flatten what they get in the order of its memory, and decode it in C order. Elements that they
    get behind the first transposes lie so.
    """
    if holds_strings(elements.dtype):
        with reserve_chunk(elements.size):
            return _encode(metadata, strings_of(elements))
    return _encode(metadata, elements)


def _encode(metadata: Mapping[str, bytes], elements: Array) -> bytes:
    files, name, order = _alone(metadata, elements.shape)
    contents = dict[str, Any]()
    with unwarned():
        array = in_memory(files, contents).with_config({"write_empty_chunks": True})
        # Fields of records, too, get the byte order of the array.
        array[...] = np.asarray(elements.transpose(order), array.dtype, order="C")
    data: bytes = contents[name].to_bytes()
    return data


def _alone(metadata: Mapping[str, bytes], sizes: Sequence[int]) -> tuple[dict[str, bytes], str, list[int]]:
    """Return the metadata of an array with one chunk or shard, the name of the file, and the order of the axes."""
    if "zarr.json" not in metadata:
        document = json.loads(metadata[".zarray"])
        document |= {"shape": [*map(int, sizes)], "chunks": [*map(int, sizes)], "dimension_separator": "."}
        return {".zarray": json.dumps(document).encode()}, ".".join("0" for _ in sizes) or "0", [*range(len(sizes))]
    document = json.loads(metadata["zarr.json"])
    order, document["codecs"] = without_transposes(document["codecs"], len(sizes))
    document["shape"] = [int(sizes[k]) for k in order]
    document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": document["shape"]}}
    document["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
    for key in ("dimension_names", "attributes"):
        document.pop(key, None)
    return {"zarr.json": json.dumps(document).encode()}, "/".join(["c", *("0" for _ in sizes)]), order
