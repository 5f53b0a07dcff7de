"""Targets: arrays that a plan will write, and `create`, which describes them."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anydml.files.addresses import Address, check_written
from anydml.files.located import locate
from anydml.files.location import Location
from anydml.stores.argument_checks import Kind, checked
from anydml.stores.formats.chunk_grid import ChunkGrid
from anydml.stores.formats.columns import DeferredBytes, FileTensors, content_bytes
from anydml.stores.formats.gguf import make_gguf_header
from anydml.stores.formats.known_bytes import KnownBytes
from anydml.stores.formats.new_header import RankParts, make_header
from anydml.stores.formats.numpy_target import npy_header, npz_headers
from anydml.stores.formats.safetensors import MAX_DIMENSIONS, METADATA
from anydml.stores.formats.store import Checkpoint, Numbers, StoredArray
from anydml.stores.formats.zarr_target import new_zarr

Content = bytes | Path | DeferredBytes
"""The content of a small file: bytes, bytes that are generated later, or a file to copy."""

_ONE_ARRAY = "holds one array: give its shape and dtype, or an array that it is like (like=)"


@dataclass(frozen=True, slots=True, eq=False)
class NewFile:
    """A file that a plan will write.

    Attributes:
        path: the final path.
        header: the bytes before the elements.
        size: the size of the whole file, in bytes.
        known_bytes: further bytes beside the elements.
        checksums: the checksums of elements, which are written at the end, as of `npz_headers`; None for none.
    """

    path: Path
    header: bytes | DeferredBytes = field(repr=False)
    size: int
    known_bytes: KnownBytes = field(default_factory=KnownBytes.of, repr=False)
    checksums: Numbers | None = field(default=None, repr=False)

    @property
    def start(self) -> bytes:
        """The bytes of the header."""
        return content_bytes(self.header)


# Not frozen, as `Store`.
@dataclass(slots=True, eq=False)
class Target(StoredArray):
    """An array in a file that a plan will write, in C order.

    Attributes:
        file: the file that will contain it.
        name: the name of the array in the file; empty if the file has only one array.
        shape: sizes, by dimension.
        dtype: the dtype of the elements.
        offset: bytes from the start of the file to the first element.

    Examples:
        >>> from anydml import stores
        >>> stores.create("new.npy", shape=[2, 3], dtype="float32").dtype
        dtype('float32')
    """

    file: NewFile
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    @property
    def layout(self) -> ChunkGrid:
        """The array as one chunk."""
        return ChunkGrid.of_plain_file(self.shape, self.dtype, self.offset)

    @property
    def path(self) -> Path:
        """The path of its file."""
        return self.file.path

    def __repr__(self) -> str:
        name = f" {self.name!r} of" if self.name else ""
        return f"<target{name} {str(self.file.path)!r}: {self.dtype} {self.shape}>"


@checked(metadata=Kind(lambda value: isinstance(value, Mapping), "pass strings by name"))
def create(
    path: str | os.PathLike[str],
    shape: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    dtype: Any = None,
    like: Any = None,
    metadata: Mapping[str, str] | None = None,
    chunks: Sequence[int] | None = None,
    codec: str | None = None,
    shards: Sequence[int] | None = None,
    zarr_format: int | None = None,
) -> Any:
    """Describe a file that a plan will write. Nothing is written until the plan runs.

    Args:
        path: a .npy, .npz, .safetensors or .gguf file, or the folder of a Zarr array, whose name ends with .zarr and
            which may lie at an address.
        shape: sizes; for a .safetensors, .gguf or .npz file, sizes by the tensors' names.
        dtype: the dtype of the elements; for such a file one for all tensors, or dtypes by their names.
        like: a `Store`, a `Checkpoint`, or an array, for the arguments that are not given.
        metadata: strings by name, for ``__metadata__`` of a .safetensors file, or the keys of a .gguf file.
        chunks: sizes of a chunk of a Zarr array, −1 for a whole axis; by default those of `like`, or Zarr's choice.
        codec: of a Zarr array: none, zstd, gzip, blosc, lz4, zlib, bz2, lzma or pcodec, with options behind a colon,
            such as ``"zstd:3"`` or ``"blosc:lz4,5,bitshuffle"``; by default those of `like`, or Zarr's choice.
        shards: sizes of a shard of a Zarr array, −1 for a whole axis, or multiples of its chunks' sizes; by default
            those of `like`, or none.
        zarr_format: the version of a Zarr array's format, 2 or 3; by default that of `like`, or 3. Fill value, names of
            axes and attributes are those of a Zarr array `like`.

    Returns:
        A `Target`, a `ZarrTarget`, or, for a .safetensors, .gguf or .npz file, targets by name.

    Raises:
        ModelError: shape or dtype is missing, or the format does not have it.

    Examples:
        >>> from anydml import stores
        >>> target = stores.create("new.npy", shape=[2, 3], dtype="float32")
        >>> target.shape
        (2, 3)
    """
    located_path = locate("create", path)
    location, suffix = Location(str(located_path)), located_path.suffix.lower()
    _check_address(located_path, location)
    if suffix == ".zarr":
        own_shape = getattr(like, "shape", None) if shape is None else shape
        own_dtype = getattr(like, "dtype", None) if dtype is None else dtype
        if metadata:
            raise location.error("is a Zarr array, whose attributes come from `like`: leave metadata out")
        if own_shape is None or isinstance(own_shape, Mapping) or own_dtype is None:
            raise location.error(_ONE_ARRAY)
        own_sizes, element = _sizes(own_shape, location), _dtype(own_dtype, location)
        return new_zarr(located_path, own_sizes, element, chunks, like, codec, None, shards, zarr_format)
    of_zarr = {"chunks": chunks, "codec": codec, "shards": shards, "zarr_format": zarr_format}
    if given := [name for name, value in of_zarr.items() if value is not None]:
        raise location.error(f"is not a Zarr array, and only those have {given[0]}: use a name that ends in .zarr")
    if suffix == ".npy":
        if metadata:
            raise location.error("is a .npy file, which has no metadata")
        own_shape = getattr(like, "shape", None) if shape is None else shape
        own_dtype = getattr(like, "dtype", None) if dtype is None else dtype
        if own_shape is None or isinstance(own_shape, Mapping) or own_dtype is None:
            raise location.error(_ONE_ARRAY)
        return new_npy(located_path, _sizes(own_shape, location), _dtype(own_dtype, location))
    if suffix not in (".safetensors", ".gguf", ".npz"):
        raise location.error("must end with .npy, .npz, .safetensors, .gguf or .zarr, which selects the format")
    arrays = like if isinstance(like, Mapping) else {}
    shapes = {name: array.shape for name, array in arrays.items()} if shape is None else shape
    if not isinstance(shapes, Mapping):
        raise location.error(f"is a {suffix} file: shape gives the sizes by the tensors' names")
    tensors = {}
    for name, sizes in shapes.items():
        name_or_dtype = dtype.get(name) if isinstance(dtype, Mapping) else dtype
        name_or_dtype = getattr(arrays.get(name), "dtype", None) if name_or_dtype is None else name_or_dtype
        if name_or_dtype is None:
            raise (location / name).error("has no dtype")
        tensors[name] = (_sizes(sizes, location / name), _dtype(name_or_dtype, location / name))
    if metadata is None:
        metadata = like.metadata if isinstance(like, Checkpoint) else {}
    return new_tensors(located_path, tensors, metadata)


def _check_address(path: Path, location: Location) -> None:
    """Refuse addresses that cannot have a Zarr array."""
    if isinstance(path, Address):
        check_written(path)
        if path.suffix.lower() != ".zarr":
            raise location.error(
                "is an address, and only Zarr arrays can be written there: let its name end with .zarr"
            )


def new_npy(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Target:
    """A .npy file with one array in C order.

    Raises:
        ModelError: the format has no such dtype.
    """
    start = npy_header(shape, dtype, Location(str(path)))
    file = NewFile(path, start, len(start) + math.prod(shape) * dtype.itemsize)
    return Target(file, "", shape, dtype, len(start))


def new_tensors(
    path: Path, tensors: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], metadata: Mapping[str, str]
) -> dict[str, Target]:
    """Return a safetensors file, or a .gguf or .npz file by its suffix.

    Raises:
        ModelError: as `new_file`.
    """
    file, offsets = new_file(path, FileTensors.of(tensors), metadata)
    return {
        name: Target(file, name, shape, dtype, offset)
        for (name, (shape, dtype)), offset in zip(tensors.items(), offsets.tolist(), strict=True)
    }


def new_file(
    path: Path, tensors: FileTensors, metadata: Mapping[str, str], ranks: RankParts | None = None
) -> tuple[NewFile, Numbers]:
    """Return a safetensors file, or a .gguf or .npz file by its suffix, and the offsets of its tensors.

    Args:
        path: the path of the file.
        tensors: the tensors, in order.
        metadata: strings by key.
        ranks: the parts of a rank that the tensors of a safetensors file are.

    Raises:
        ModelError: the format has no such dtype or name, or metadata are not texts.
    """
    location = Location(str(path))
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise (location / METADATA).error(f"must have strings only, not {key!r:.60}: {value!r:.60}")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        if metadata:
            raise location.error("is a .npz file, which has no metadata")
        headers = npz_headers(tensors, location)
        return NewFile(path, b"", headers.size, headers.known_bytes, headers.checksums), headers.offsets
    if suffix == ".gguf":
        header, offsets, size = make_gguf_header(tensors, metadata, location)
        return NewFile(path, header, size), offsets
    later, offsets, size = make_header(tensors, metadata, location, ranks)
    return NewFile(path, later, size), offsets


def _dtype(dtype: Any, location: Location) -> np.dtype[Any]:
    try:
        numpy_dtype: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError):
        raise location.error(f"dtype is {dtype!r:.60}, which NumPy does not know: use a name such as float32") from None
    return numpy_dtype


def _sizes(raw_sizes: Any, location: Location) -> tuple[int, ...]:
    if isinstance(raw_sizes, (str, bytes)):
        raise location.error(f"shape is the string {raw_sizes!r:.60}: pass a sequence of sizes, such as [2, 3]")
    try:
        sizes = tuple(operator.index(size) for size in raw_sizes)
    except TypeError:
        raise location.error(f"shape is {raw_sizes!r:.80}: pass a sequence of integers, such as [2, 3]") from None
    if len(sizes) > MAX_DIMENSIONS:
        raise location.error(f"shape has {len(sizes)} sizes: there must be at most {MAX_DIMENSIONS}")
    if (axis := next((axis for axis, size in enumerate(sizes) if size < 0), None)) is not None:
        raise location.error(f"shape[{axis}] is {sizes[axis]}: each size must be 0 or more")
    return sizes


def remarks_on_folder(out: Path) -> list[str]:
    """Return a remark on a folder whose name ends like a file's name."""
    if out.suffix.lower() in (".zarr", ".zip", ".icechunk") or not re.fullmatch(r"\.[A-Za-z]\w{0,9}", out.suffix):
        return []
    return [f"writes a folder named {out.name}: {out.suffix} is not the suffix of a file that is written here"]
