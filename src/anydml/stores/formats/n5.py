"""N5: folders of arrays whose blocks are files with headers; blocks are read in place as chunks of Zarr.

The format is that of the specification of N5 4.0.0 (https://github.com/saalfeldlab/n5).
"""

from __future__ import annotations

import itertools
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anydml.files.location import Location, show
from anydml.stores.formats.references import Range, References
from anydml.stores.formats.safetensors import parse_json
from anydml.stores.formats.store import state_of
from anydml.stores.formats.zarr_metadata import is_zarr
from anydml.stores.formats.zarr_rectilinear import MAX_SIZES, with_edges
from anydml.stores.formats.zarr_shards import Json

ATTRIBUTES = "attributes.json"

REMARK = "has the axes in the order of N5's dimensions, of which the first lies closest, as TensorStore does"
"""A remark on every array, because other libraries reverse the axes."""

OF_ARRAYS = ("dimensions", "blockSize", "dataType")
"""Attributes that all arrays have."""

DTYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) | {"float32", "float64"}

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")

CODECS: Mapping[str, Callable[[Mapping[str, Any], int], list[Json]]] = {
    "raw": lambda _, __: [],
    "gzip": lambda fields, _: [_codec("numcodecs.zlib" if fields.get("useZlib") else "gzip", level=_level(fields, 6))],
    "bzip2": lambda fields, _: [_codec("numcodecs.bz2", level=int(fields.get("blockSize", 9)))],
    "xz": lambda fields, _: [_codec("numcodecs.lzma", format=1, check=-1, preset=int(fields.get("preset", 6)))],
    "zstd": lambda fields, _: [_codec("zstd", level=int(fields.get("level", 3)), checksum=False)],
    "blosc": lambda fields, size: [
        _codec("blosc", cname=fields["cname"], clevel=int(fields["clevel"]), shuffle=SHUFFLES[fields["shuffle"]],
               typesize=size, blocksize=int(fields.get("blocksize", 0)))
    ],
}  # fmt: skip
"""Codecs of Zarr for the compressions that are read, by the compression's attributes and the bytes of an element."""


def is_n5(path: Path) -> bool:
    """Whether a folder is an array or a container of N5."""
    try:
        attributes = json.loads((path / ATTRIBUTES).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(attributes, dict) and ("n5" in attributes or _is_array(attributes)) and not is_zarr(path)


def state_of_n5(path: Path) -> tuple[Any, ...]:
    """Return a value that changes with any of the files."""
    walked = ((Path(folder) / name for name in sorted(files)) for folder, _, files in os.walk(path))
    return tuple((str(file), *state_of(file.stat())) for file in itertools.chain.from_iterable(walked))


def references_of_n5(path: Path, location: Location) -> References:
    """Return the byte ranges of the blocks of all arrays, with metadata of Zarr's version 3.

    Raises:
        ModelError: attributes are broken.
    """
    objects, refused = dict[str, bytes | Range](), dict[str, str]()
    with location.reading():
        for name, node_attributes in _nodes(path, ""):
            start = f"{name}/".lstrip("/")
            if not _is_array(node_attributes):
                attributes = {key: value for key, value in node_attributes.items() if key != "n5"}
                group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
                objects[f"{start}zarr.json"] = json.dumps(group).encode()
                continue
            try:
                array_objects = dict(_array(path / name, node_attributes))
            except (ValueError, TypeError, LookupError) as error:
                reason = f"lacks {error}" if isinstance(error, KeyError) else str(error)
                refused[name] = f"is an array of N5 that {reason}"
                continue
            objects |= {f"{start}{key}": content for key, content in array_objects.items()}
    if "" in refused:
        raise location.error(refused[""])
    return References(objects, refused, remark=REMARK)


def _is_array(attributes: Mapping[str, Any]) -> bool:
    return all(key in attributes for key in OF_ARRAYS)


def _nodes(path: Path, name: str) -> Iterator[tuple[str, Json]]:
    """Yield groups and arrays by relative path, with their attributes."""
    attributes: Any = {}
    if (file := path / name / ATTRIBUTES).is_file():
        attributes = parse_json(file.read_bytes(), Location(str(file)), "text")
        if not isinstance(attributes, dict):
            raise Location(str(file)).error("is not a JSON object")
    yield name, attributes
    if not _is_array(attributes):
        for entry in sorted((path / name).iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                yield from _nodes(path, f"{name}/{entry.name}".lstrip("/"))


def _array(path: Path, fields: Json) -> Iterator[tuple[str, bytes | Range]]:
    """Yield metadata and blocks of an array.

    Raises:
        ValueError: the array has unsupported properties.
        LookupError: attributes of its compression are missing.
    """
    shape, block, type_name = (fields[key] for key in OF_ARRAYS)
    if not _are_sizes(shape, 0) or not _are_sizes(block, 1) or len(shape) != len(block):
        raise ValueError(
            f"has dimensions {show(str(shape))} and blockSize {show(str(block))}: "
            "both must be lists of as many sizes, and those of blocks 1 or more"
        )
    if type_name not in DTYPES:
        raise ValueError(f"has dataType {show(str(type_name))}, whose elements are not numbers of 1 to 8 bytes")
    dtype = np.dtype(str(type_name))
    rank, blocks = len(shape), dict[tuple[int, ...], tuple[Path, tuple[int, ...]]]()
    for block_index, file in _files(path, rank):
        if all(k * size < axis_size for k, size, axis_size in zip(block_index, block, shape, strict=True)):
            blocks[block_index] = file, _sizes(file, rank)
    edges = _edges(shape, block, blocks)
    endian: Json = {"name": "bytes", "configuration": {"endian": "big"}} if dtype.itemsize > 1 else {"name": "bytes"}
    axes = fields.get("axes")
    are_names = isinstance(axes, list) and len(axes) == rank and all(isinstance(axis, str) for axis in axes)
    attributes = {k: v for k, v in fields.items() if k not in (*OF_ARRAYS, "compression", "compressionType", "n5")}
    document = {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": type_name, "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": block}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [_transpose_codec(rank), endian, *_compressors(fields, dtype.itemsize)],
        **({"dimension_names": axes} if are_names else {}),
        "attributes": {k: v for k, v in attributes.items() if k != "axes" or not are_names},
    }  # fmt: skip
    files = {"zarr.json": json.dumps(document).encode()}
    yield from (files if edges is None else with_edges(files, edges)).items()
    for block_index, (file, _) in blocks.items():
        yield "/".join(["c", *map(str, block_index)]), Range(file, 4 + 4 * rank, None)


def as_plain(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the metadata of an array with its elements in row-major order, in chunks of one size."""
    document = json.loads(metadata["zarr.json"])
    grid = document["chunk_grid"]["configuration"]
    if "chunk_shapes" in grid:
        firsts = (
            axis_chunks[0] if isinstance(axis_chunks, list) else axis_chunks for axis_chunks in grid["chunk_shapes"]
        )
        sizes = [first[0] if isinstance(first, list) else first for first in firsts]
        document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": sizes}}
    document["codecs"] = document["codecs"][1:]
    return {"zarr.json": json.dumps(document).encode()}


def _are_sizes(value: Any, min_size: int) -> bool:
    return isinstance(value, list) and bool(value) and all(type(n) is int and min_size <= n < 1 << 62 for n in value)


def _compressors(attributes: Json, size: int) -> list[Json]:
    """Return codecs of Zarr by which the blocks are compressed."""
    # Version 1 had only a name.
    options = attributes.get("compression", {"type": attributes.get("compressionType", "raw")})
    if not isinstance(options, dict) or options.get("type") not in CODECS:
        raise ValueError(f"has compression {show(str(options))}, which must be one of {', '.join(CODECS)}")
    return CODECS[options["type"]](options, size)


def _codec(name: str, **configuration: Any) -> Json:
    return {"name": name, "configuration": configuration}


def _level(options: Mapping[str, Any], default: int) -> int:
    """Return a compression level; N5 writes −1 for the default."""
    level = int(options.get("level", -1))
    return default if level < 0 else level


def _transpose_codec(rank: int) -> Json:
    """Return the codec of blocks whose first axis is contiguous."""
    return {"name": "transpose", "configuration": {"order": [*range(rank)][::-1]}}


def _files(folder: Path, rank: int) -> Iterator[tuple[tuple[int, ...], Path]]:
    """Yield the files of blocks, each with the block's numbers along the axes."""
    with os.scandir(folder) as entries:
        all_entries = [*entries]
    for entry in all_entries:
        # Names of blocks have numbers without leading zeros.
        if not entry.name.isdecimal() or str(int(entry.name)) != entry.name:
            continue
        if rank == 1 and entry.is_file():
            yield (int(entry.name),), Path(entry.path)
        elif rank > 1 and entry.is_dir():
            for inner_number, file in _files(Path(entry.path), rank - 1):
                yield (int(entry.name), *inner_number), file


def _sizes(file: Path, rank: int) -> tuple[int, ...]:
    """Return the sizes of a block, from its header.

    Raises:
        ValueError: the header is broken, or its block's elements are not numbers.
    """
    with file.open("rb") as opened:
        header = opened.read(4 + 4 * rank)
    if len(header) < 4 + 4 * rank:
        raise ValueError(f"has a block of {len(header)} bytes, {file}")
    mode, axes, *sizes = struct.unpack(f">HH{rank}I", header)
    if mode or axes != rank:
        raise ValueError(f"has a block of mode {mode} and {axes} axes, {file}: mode 0 and {rank} axes are read")
    return tuple(sizes)


def _edges(
    shape: Sequence[int], block: Sequence[int], blocks: Mapping[tuple[int, ...], tuple[Path, tuple[int, ...]]]
) -> list[list[int]] | None:
    """Return the edges of blocks along each axis; None if the last blocks are complete, too.

    Raises:
        ValueError: blocks at the same end of the array differ in size.
    """
    ends = list[tuple[int, int]]()
    for axis, (axis_size, size) in enumerate(zip(shape, block, strict=True)):
        last = max(0, axis_size - 1) // size
        last_size = axis_size - last * size
        at_end = {sizes[axis] for block_index, (_, sizes) in blocks.items() if block_index[axis] == last}
        end = last_size if at_end == {last_size} else size
        ends.append((last, end))
        for block_index, (file, sizes) in blocks.items():
            if sizes[axis] != (end if block_index[axis] == last else size):
                raise ValueError(
                    f"has a block of sizes {[*sizes]}, {file}, but other blocks have {size}, and {end} at the end of "
                    f"axis {axis}: let TensorStore copy it to a Zarr folder"
                )
    if all(end == size for (_, end), size in zip(ends, block, strict=True)):
        return None
    if max(last for last, _ in ends) >= MAX_SIZES:
        raise ValueError(f"has more than {MAX_SIZES} blocks along an axis")
    columns = zip(ends, block, strict=True)
    return [[*range(0, last * size + 1, size), last * size + end] for (last, end), size in columns]
