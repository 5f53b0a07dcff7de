"""Zarr arrays in folders: their metadata and grids of chunks."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from anydml.errors import BindingError, ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location, names
from anydml.stores.formats.block_types import name_of
from anydml.stores.formats.chunk_grid import ChunkGrid
from anydml.stores.formats.shard_index import index_of
from anydml.stores.formats.store import Array, StoredArray
from anydml.stores.formats.zarr_codecs import (
    OBJECT_CODECS,
    as_stored,
    bounded,
    codec_of_v2,
    codec_of_v3,
    names_of,
    raise_if_short,
)
from anydml.stores.formats.zarr_in_memory import decode_chunk, in_memory, memory_store, open_quietly
from anydml.stores.formats.zarr_metadata import is_zarr, is_zarr_group
from anydml.stores.formats.zarr_rectilinear import as_regular, edges_of, is_turned, readable
from anydml.stores.formats.zarr_shards import SHARDING, check_shards
from anydml.stores.formats.zarr_strings import (
    CODEC,
    STRING_NUMBER,
    holds_strings,
    numbers_of,
    strings_of,
    strings_within,
)
from anydml.stores.formats.zarr_unsupported import unsupported
from anydml.stores.formats.zarr_warnings import unwarned

MAX_BYTES = 1 << 62
"""Upper bound of the bytes of an array, and of a chunk, so that file offsets fit 64 bits."""


def require_zarr(location: Location) -> Any:
    """Import zarr-python.

    Raises:
        ModelError: zarr-python is not installed, or too old.
    """
    if importlib.util.find_spec("zarr") is None:
        raise location.error('is a Zarr array, which zarr-python reads: pip install "anydml[stores]"')
    import zarr

    if int(zarr.__version__.partition(".")[0]) < 3:
        raise location.error(f"needs zarr-python 3; {zarr.__version__} is installed")
    return zarr


@dataclass(frozen=True, slots=True, eq=False)
class ZarrFolder(StoredArray):
    """A Zarr array in a folder, which exists or will be written.

    Attributes:
        path: the folder.
        layout: the grid of chunks.
        metadata: contents of its metadata files, by name.
    """

    path: Path
    layout: ChunkGrid
    metadata: Mapping[str, bytes] = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of the array along each dimension."""
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.layout.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """The size of a chunk along each dimension."""
        return self.layout.inner

    @property
    def name(self) -> str:
        """The empty string, because the folder has no other array."""
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class ZarrStore(ZarrFolder):
    """A Zarr array in a folder, whose chunks have not been read.

    Attributes:
        path: the folder.
        layout: the grid of chunks.
        metadata: contents of its metadata files, by name.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(6).reshape(2, 3))
        >>> stores.rechunk("x.npy", "rows.zarr", chunks=[1, 3]).run()
        >>> array = stores.open("rows.zarr")
        >>> array.shape, array.layout.chunk
        ((2, 3), (1, 3))
    """

    def read(self) -> Array:
        """Read the whole array.

        Returns:
            A new array of `shape` and `dtype`.

        Raises:
            ModelError: a chunk cannot be read or decoded.
            MemoryError: there is not enough memory, or no thread can be started.
        """
        try:
            if self.layout.is_alone:
                with strings_within(math.inf):
                    return self._by_chunks()
            with unwarned():
                elements: Array = np.asarray(bounded(zarr_array(self.path, self.metadata))[...])
        except (OSError, ValueError, RuntimeError) as error:
            raise_if_short(error)
            raise Location(str(self.path)).error(f"cannot be read: {error}") from None
        return elements

    def _by_chunks(self) -> Array:
        elements: Array = np.full(self.shape, np.frombuffer(self.layout.fill, self.dtype)[0])
        for number in self.layout.intersecting(tuple((0, size) for size in self.shape)):
            with suppress(FileNotFoundError):
                data = (self.path / self.layout.name(number)).read_bytes()
                chunk = decode_chunk(self.metadata, self.layout.sizes(number), data)
                box = self.layout.box(number)
                elements[tuple(slice(*interval) for interval in box)] = chunk[tuple(slice(0, b - a) for a, b in box)]
        return strings_of(elements) if holds_strings(self.dtype) else elements

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise BindingError(
            f"{self!r} is an array in a folder, and is not converted implicitly: call .read(), or pass it to a plan"
        )

    def __getitem__(self, key: Any) -> NoReturn:
        self.__array__()

    def __repr__(self) -> str:
        return f"<store {str(self.path)!r}: {name_of(self.dtype)} {self.shape} in chunks {self.chunks}>"


def zarr_array(path: Path, metadata: Mapping[str, bytes]) -> Any:
    """Open the array in a folder with zarr-python; at an address by its known metadata."""
    zarr = require_zarr(Location(str(path)))
    if not isinstance(path, Address):
        return open_quietly(zarr.open_array, str(path), "r")
    cached = in_memory(metadata)
    if path.is_local:
        store_path = zarr.storage.StorePath(zarr.storage.MemoryStore(_Objects(path)), "")
    else:
        store = zarr.storage.ObjectStore(path.store, read_only=True)
        store_path = zarr.storage.StorePath(store, path.key)
    return zarr.Array(
        zarr.AsyncArray(metadata=cached.metadata, store_path=store_path, config=cached.async_array.config)
    )


class _Objects(MutableMapping[str, Any]):
    """The objects of a folder inside a file, read when zarr-python asks for them."""

    def __init__(self, path: Address) -> None:
        self._path = path

    def __getitem__(self, name: str) -> Any:
        from zarr.core.buffer import default_buffer_prototype

        try:
            return default_buffer_prototype().buffer.from_bytes((self._path / name).read_bytes())
        except FileNotFoundError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self._path.iterdir())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, value: Any) -> NoReturn:
        raise OSError(0, "is only read", str(self._path))

    def __delitem__(self, name: str) -> NoReturn:
        raise OSError(0, "is only read", str(self._path))


def open_zarr(path: Path) -> ZarrStore:
    """Open a Zarr array, reading only its metadata.

    Raises:
        ModelError: the folder is a group, its metadata are broken, or zarr-python is not installed.
        MemoryError: there is not enough memory, or no thread can be started.
    """
    location = Location(str(path))
    zarr = require_zarr(location)
    with location.reading():
        files = metadata_of(path)
    if "zarr.json" in files or ".zarray" in files:
        if (refused := unsupported(files)) is not None:
            raise location.error(refused)
        try:
            edges = edges_of(files)
            array = open_quietly(zarr.open, memory_store(readable(files)), "r")
        except Exception as error:
            # Broken metadata can raise any exception.
            raise_if_short(error)
            message = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)[:200]
            if isinstance(error, AttributeError):
                message = "it is not a JSON object"
            raise location.error(f"has metadata that zarr-python cannot read: {message}") from None
        if not isinstance(array.metadata.attributes or {}, Mapping):
            raise location.error("has attributes that are not an object")
        if isinstance(array, zarr.Array):
            layout = layout_of(array, path)
            if edges is not None or is_turned(as_regular(files)):
                layout = layout.with_one_chunk_per_file(edges)
            return ZarrStore(path, layout, files)
        if not is_zarr_group(path):
            raise location.error('has a zarr.json whose node_type must be "array" or "group", and is neither')
    with location.reading():
        arrays_inside = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and is_zarr(entry))
    hint = f": name one of {names(arrays_inside)} in it" if arrays_inside else ""
    raise location.error(f"must be a Zarr array, not a group{hint}")


def metadata_of(path: Path) -> dict[str, bytes]:
    """Return the contents of an array's metadata files, by name.

    Raises:
        ModelError: the metadata cannot be read.
    """
    contents = dict[str, bytes]()
    for name in ("zarr.json", ".zarray", ".zattrs"):
        with Location(str(path)).reading(), suppress(FileNotFoundError):
            contents[name] = (path / name).read_bytes()
            if name == "zarr.json":
                break
    return contents


def layout_of(array: Any, path: Path) -> ChunkGrid:
    """Return the grid of chunks of zarr-python's array in a folder.

    Raises:
        ModelError: elements are not plain bytes, a chunk is empty, or the array is too large for any file system.
    """
    with unwarned():
        metadata = array.metadata.to_dict()
    dtype = np.dtype(array.dtype)
    if is_string := dtype.kind == "T":
        dtype = STRING_NUMBER
    if dtype.hasobject:
        raise ModelError(
            f"{path}: is of dtype {dtype}, whose elements are references to Python objects: rewrite it by "
            "zarr-python; in a group it is copied as it is, unless an option names it"
        )
    of_objects = OBJECT_CODECS - {CODEC} if is_string else OBJECT_CODECS
    refused = next((name for name in names_of(metadata) if name in of_objects), None)
    if refused is not None:
        raise ModelError(
            f"{path}: has codec {refused}, which makes Python objects instead of bytes: rewrite the array by "
            "zarr-python with another codec"
        )
    version = int(metadata["zarr_format"])
    codec, is_own = (codec_of_v2 if version == 2 else codec_of_v3)(metadata)
    shape, inner = tuple(map(int, array.shape)), tuple(map(int, array.chunks))
    outer = inner if array.shards is None else tuple(map(int, array.shards))
    if version == 3:
        dtype = dtype if is_string else as_stored(dtype, metadata["codecs"])
        try:
            check_shards(json.loads(json.dumps(metadata["codecs"], default=str)), outer)
        except ValueError as error:
            # zarr-python would read fill values.
            raise ModelError(f"{path}: {error}") from None
    encoding = metadata.get("chunk_key_encoding", {})
    default = "." if version == 2 else "/"
    separator = metadata.get("dimension_separator") or encoding.get("configuration", {}).get("separator", default)
    if any(0 in (a, b) and size for a, b, size in zip(inner, outer, shape, strict=True)):
        raise ModelError(f"{path}: has shape {[*shape]}, but chunks of sizes {[*inner]}: sizes are from 1")
    if max(math.prod(max(1, size) for size in grid) for grid in (shape, outer)) * max(1, dtype.itemsize) >= MAX_BYTES:
        raise ModelError(f"{path}: has shape {[*shape]} in chunks {[*outer]}, which no file system holds")
    # Without a fill value, zarr-python reads missing chunks as NaT if elements are times, and else as zeros.
    missing = np.array("NaT", dtype) if dtype.kind in "mM" else np.zeros((), dtype)
    fill = missing if array.fill_value is None else np.array(array.fill_value)
    fill = numbers_of(np.array(str(fill)), True) if is_string and array.fill_value is not None else fill.astype(dtype)
    grid = ChunkGrid(
        shape,
        tuple(max(1, size) for size in outer),
        dtype,
        version,
        separator,
        version == 3 and encoding.get("name", "default") == "default",
        codec,
        is_own and 0 not in array.chunks,
        fill.tobytes(),
        inner,
    )
    if is_string:
        return replace(grid.with_one_chunk_per_file(None), codec=None, is_own=False)
    return grid if version == 2 or array.shards is None else _with_shards(grid, metadata)


def know_fill(metadata: Mapping[str, bytes]) -> None:
    """Register the string of the fill value of an array of strings, which another process may have opened."""
    import zarr

    layout_of(open_quietly(zarr.open, memory_store(readable(metadata)), "r"), Path())


def _with_shards(grid: ChunkGrid, metadata: Mapping[str, Any]) -> ChunkGrid:
    """Return the grid of an array with shards: that of its chunks if anydml itself reads and writes these."""
    codecs = json.loads(json.dumps(metadata["codecs"], default=str))
    if len(codecs) != 1 or codecs[0]["name"] != SHARDING or metadata.get("storage_transformers") or 0 in grid.inner:
        return grid
    sharding = codecs[0]["configuration"]
    codec, is_own = codec_of_v3({"codecs": sharding["codecs"]})
    index = index_of(sharding, grid.chunk)
    if not is_own or index is None or as_stored(grid.dtype, sharding["codecs"]) != grid.dtype:
        return grid
    return replace(grid, chunk=grid.inner, codec=codec, is_own=True, shard=grid.chunk, index=index)
