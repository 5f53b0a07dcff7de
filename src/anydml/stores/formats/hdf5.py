"""HDF5 and NetCDF-4 files: chunks are read in place, at the offsets that h5py reports."""

from __future__ import annotations

import base64
import importlib.util
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anydml.files.location import Location, show
from anydml.stores.formats.hdf5_chunks import (
    CODEC,
    DecodedChunk,
    check_elements,
    chunk_shape,
    decoded_chunks,
    has_other_padding,
    packed_dtype,
)
from anydml.stores.formats.references import Object, Range, References
from anydml.stores.formats.zarr_metadata import DIMENSIONS

SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""The signature at the beginning of a file, or after its user block."""

MIN_USER_BLOCK = 512
"""Bytes of the smallest user block; the other possible sizes are its multiples by powers of two."""

SUFFIXES = (".h5", ".hdf5", ".he5", ".nc", ".nc4", ".mat")
"""Suffixes of files that are searched for a signature after a user block, as in MATLAB's files."""

FILTERS: dict[int, Callable[[tuple[int, ...]], dict[str, Any]]] = {
    1: lambda values: {"id": "zlib", "level": values[0] if values else 1},
    2: lambda values: {"id": "shuffle", "elementsize": values[0]},
    3: lambda _: {"id": "fletcher32"},
    32001: lambda values: {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    32015: lambda values: {"id": "zstd", "level": values[0] if values else 3},
}
"""Filters by their registered numbers, as codecs of numcodecs that decode them."""

OF_LIBRARIES = frozenset({
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", "_Netcdf4Dimid", "_Netcdf4Coordinates",
    "_nc3_strict", "_NCProperties",
})  # fmt: skip
"""Attributes by which the libraries of HDF5 and NetCDF store what Zarr has elsewhere."""

WITHOUT_VALUES = "This is a netCDF dimension but not a netCDF variable"
"""The prefix of the names of scales that stand only for the size of an axis."""


def is_hdf5(path: Path) -> bool:
    """Whether a file is an HDF5 file.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        if file.read(len(SIGNATURE)) == SIGNATURE:
            return True
        if path.suffix.lower() not in SUFFIXES:
            return False
        offset, end = MIN_USER_BLOCK, file.seek(0, os.SEEK_END)
        while offset < end:
            file.seek(offset)
            if file.read(len(SIGNATURE)) == SIGNATURE:
                return True
            offset *= 2
    return False


def references_of_hdf5(path: Path, location: Location) -> References:
    """Return the byte ranges of the chunks of all datasets, with metadata of Zarr's version 2.

    Raises:
        ModelError: h5py is not installed, or cannot read the file.
    """
    if importlib.util.find_spec("h5py") is None:
        raise location.error('is an HDF5 or NetCDF-4 file, which h5py reads: pip install "anydml[hdf5]"')
    import h5py

    objects, refused, lost = dict[str, bytes | Object](), dict[str, str](), dict[str, list[str]]()
    try:
        with h5py.File(path, "r") as file:
            for name, member in _members(file, ""):
                if isinstance(member, h5py.SoftLink | h5py.ExternalLink):
                    refused[name] = f"is a link to {show(member.path)}{_link_target(member)}, which is not followed"
                    continue
                attributes, names_lost = _attributes(member)
                if names_lost:
                    lost[name] = names_lost
                if isinstance(member, h5py.Group):
                    hdf5_objects: dict[str, bytes | Object] = {
                        ".zgroup": _encode_document({"zarr_format": 2}),
                        ".zattrs": _encode_document(attributes),
                    }
                else:
                    try:
                        hdf5_objects = dict(_dataset(member, path, attributes))
                    except (ValueError, KeyError, NotImplementedError) as error:
                        refused[name] = str(error)
                        continue
                objects |= {f"{name}/{key}".lstrip("/"): content for key, content in hdf5_objects.items()}
    except (OSError, RuntimeError) as error:
        raise location.error(f"cannot be read by h5py: {str(error)[:200]}") from None
    return References(objects, refused, lost=lost)


def _members(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the groups, datasets and links of a file with their names."""
    import h5py

    yield name, group
    for key in group:
        link, member_name = group.get(key, getlink=True), f"{name}/{key}".lstrip("/")
        if not isinstance(link, h5py.HardLink):
            yield member_name, link
            continue
        member = group[key]
        if isinstance(member, h5py.Group):
            yield from _members(member, member_name)
        elif isinstance(member, h5py.Dataset) and not _text_of(member.attrs.get("NAME", b"")).startswith(
            WITHOUT_VALUES
        ):
            yield member_name, member


def _link_target(link: Any) -> str:
    """Return the file and the path that an external link leads to."""
    return f" in the file {show(link.filename)}" if hasattr(link, "filename") else ""


def _dataset(data: Any, path: Path, attributes: Mapping[str, Any]) -> Iterator[tuple[str, bytes | Object]]:
    """Yield metadata and chunks of a dataset.

    Raises:
        ValueError: its elements are not plain bytes in this file, or a filter is unknown.
    """
    check_elements(data)
    dtype = packed_dtype(data.dtype)
    codecs, chunks = _codecs(data, dtype), _chunks(data)
    # Chunks that a filter does not shrink may be written without it.
    is_decoded = has_other_padding(data.id.get_type()) or any(chunk_info.filter_mask for chunk_info in chunks)
    is_decoded = is_decoded or codecs is None or dtype != data.dtype
    codecs = [CODEC] if is_decoded or codecs is None else codecs
    fill = np.zeros((), dtype) if data.fillvalue is None else np.asarray(data.fillvalue, dtype)
    shape = tuple(map(int, data.shape))
    chunk = tuple(data.chunks or chunk_shape(shape, dtype.itemsize, is_decoded))
    is_last = bool(codecs) and codecs[-1]["id"] in ("zlib", "zstd", "blosc")
    yield ".zarray", _encode_document({
        "zarr_format": 2, "shape": [*shape], "chunks": [*chunk], "order": "C", "dimension_separator": ".",
        "dtype": _descr(dtype), "fill_value": _fill(fill),
        "compressor": codecs.pop() if is_last else None, "filters": codecs or None,
    })  # fmt: skip
    axes = _axes(data)
    yield ".zattrs", _encode_document({**attributes, **({DIMENSIONS: axes} if axes else {})})
    # Chunks that were never written may have any offset.
    if 0 in shape or not data.id.get_storage_size():
        return
    if data.chunks is None:
        offset, size = data.id.get_offset(), math.prod(shape) * dtype.itemsize
        name = ".".join("0" for _ in shape) or "0"
        if is_decoded:
            yield from decoded_chunks(DecodedChunk(path, data.name, (), chunk, dtype.itemsize), shape)
        elif offset is not None:
            yield name, Range(path, offset, size)
        else:
            # Small datasets may be stored in their headers.
            yield name, np.ascontiguousarray(data[...]).tobytes()
        return
    base = 0 if is_decoded else _base(data, chunks, path)
    for chunk_info in chunks:
        first = tuple(map(int, chunk_info.chunk_offset))
        chunk_number = ".".join(str(start // size) for start, size in zip(first, chunk, strict=True))
        if is_decoded:
            yield chunk_number, DecodedChunk(path, data.name, first, chunk, dtype.itemsize)
        else:
            yield chunk_number, Range(path, base + chunk_info.byte_offset, chunk_info.size)


def _descr(dtype: np.dtype[Any]) -> Any:
    """Return a dtype in Zarr's terms, without what h5py notes about texts."""
    return dtype.str if dtype.names is None else [[name, dtype[name].str] for name in dtype.names]


def _chunks(data: Any) -> list[Any]:
    """Return the byte ranges of the chunks."""
    chunks = list[Any]()
    if data.chunks is None:
        return chunks
    if hasattr(data.id, "chunk_iter"):
        data.id.chunk_iter(chunks.append)
        return chunks
    return [data.id.get_chunk_info(k) for k in range(data.id.get_num_chunks())]


def _base(data: Any, chunks: Sequence[Any], path: Path) -> int:
    """Return the origin of the offsets of chunks: some versions of HDF5 count from the end of the user block.

    Raises:
        ValueError: the chunks are at neither place.
    """
    places = {0, int(data.file.userblock_size)}
    with path.open("rb") as file:
        for chunk_info in chunks:
            # Chunks of zeros may be at both places.
            if len(places) == 1:
                break
            content = bytes(data.id.read_direct_chunk(chunk_info.chunk_offset)[1])
            for start in [*places]:
                file.seek(start + chunk_info.byte_offset)
                if file.read(len(content)) != content:
                    places.remove(start)
            if not places:
                raise ValueError("has chunks whose places behind the user block are not known")
    return min(places)


def _codecs(data: Any, dtype: np.dtype[Any]) -> list[dict[str, Any]] | None:
    """Return the codecs of the filters; None if h5py alone has one of them.

    Raises:
        ValueError: h5py does not have a filter.
    """
    import h5py

    plist, codecs = data.id.get_create_plist(), list[dict[str, Any]]()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    for filter_number, _, values, name in filters:
        if filter_number in FILTERS:
            codecs.append(FILTERS[filter_number]((dtype.itemsize,) if filter_number == 2 else values))
        elif not h5py.h5z.filter_avail(filter_number):
            filter_name = name.decode("latin-1") or filter_number
            raise ValueError(f"has filter {filter_name}, which h5py does not have: replace it by h5repack -f GZIP=4")
    return codecs if len(codecs) == len(filters) else None


def _axes(data: Any) -> list[str]:
    """Return the names of the axes, from their scales; empty unless every axis has a scale."""
    if not data.ndim:
        return []
    if data.attrs.get("CLASS") == b"DIMENSION_SCALE" and data.ndim == 1:
        return [data.name.rpartition("/")[2]]
    axes = []
    for dimension in data.dims:
        try:
            axes += [scale.name.rpartition("/")[2] for scale in dimension.values()][:1] or [dimension.label]
        except (RuntimeError, KeyError):
            return []
    return axes if all(axes) else []


def _attributes(of: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes that JSON can represent, and the names of all other attributes."""
    attributes, lost = dict[str, Any](), list[str]()
    for name in of.attrs:
        if name in OF_LIBRARIES:
            continue
        try:
            value = of.attrs[name]
            value = value.tolist() if hasattr(value, "tolist") else value
            if isinstance(value, list) and len(value) == 1 and name != DIMENSIONS:
                # NetCDF writes numbers as arrays of one element.
                value = value[0]
            attributes[name] = json.loads(json.dumps(value, default=_text_of_bytes))
        except (OSError, TypeError, ValueError):
            lost.append(name)
    return attributes, lost


def _text_of_bytes(value: Any) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"{show(str(value))} is not a string")
    return value.decode()


def _text_of(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _fill(value: np.ndarray[Any, Any]) -> Any:
    """Return a fill value for metadata of version 2; null for zeros, with which missing chunks are zeros, too."""
    if value.dtype.kind in "SV":
        return base64.b64encode(value.tobytes()).decode()
    if not any(value.tobytes()):
        return None
    if value.dtype.kind == "f":
        number = float(value)
        return number if math.isfinite(number) else "NaN" if math.isnan(number) else f"{'-' * (number < 0)}Infinity"
    if value.dtype.kind == "c":
        return [0.0 if (fill := _fill(np.asarray(part))) is None else fill for part in (value.real, value.imag)]
    return value.item()


def _encode_document(document: Any) -> bytes:
    return json.dumps(document).encode()
