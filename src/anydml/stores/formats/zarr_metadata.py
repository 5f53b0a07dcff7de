"""Metadata of Zarr: whether a folder has some, and those of an array changed for another one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anydml.files.location import show
from anydml.stores.formats.zarr_codecs import names_inside
from anydml.stores.formats.zarr_rectilinear import as_regular
from anydml.stores.formats.zarr_shards import SHARDING, Json, compress, inward, is_ordered, levels_of, rechunked

METADATA = ("zarr.json", ".zarray", ".zgroup")
"""Files of which a Zarr array or group has one."""

GROUP_FILES = ("zarr.json", ".zgroup", ".zattrs", ".zmetadata")
"""Files that describe a group."""


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr array or group."""
    return any((path / name).is_file() for name in METADATA)


def is_zarr_array(path: Path) -> bool:
    """Whether a folder is a Zarr array, not a group."""
    return _kind(path) == "array"


def is_zarr_group(path: Path) -> bool:
    """Whether a folder is a Zarr group."""
    return _kind(path) == "group"


def _kind(path: Path) -> str | None:
    try:
        document = json.loads((path / "zarr.json").read_bytes())
    except FileNotFoundError:
        return "group" if (path / ".zgroup").is_file() else "array" if (path / ".zarray").is_file() else None
    except (OSError, ValueError, RecursionError):
        return None
    return str(document.get("node_type")) if isinstance(document, dict) else None


DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute by which xarray names the axes of arrays of version 2."""


class RequestedLayout(NamedTuple):
    """Properties of a new array that is otherwise like another array.

    Attributes:
        axes: for each axis, the other array's axis that it comes from; None if unknown, with `chunks` given.
        chunks: sizes of a chunk; by default those of the other array.
        shards: sizes of a shard, −1 for a whole axis, empty for none; by default those of the other array,
            rounded up to whole chunks.
        compressors: configurations of the compressors; by default those of the other array.
    """

    axes: Sequence[int] | None
    chunks: Sequence[int] | None = None
    shards: Sequence[int] | None = None
    compressors: Sequence[Json] | None = None

    def along(self, sizes: Sequence[Any]) -> list[Any]:
        """Put sizes, or other values, of the source's axes into the order of the new axes."""
        return [sizes[k] for k in self.axes or ()]


def changed(metadata: Mapping[str, bytes], shape: Sequence[int], request: RequestedLayout) -> dict[str, bytes]:
    """Return the metadata of a new array.

    Args:
        metadata: contents of the files that describe the other array, by name.
        shape: the shape of the new array.
        request: the other properties of the new array.

    Raises:
        ValueError: version 2 has no shards.
    """
    files = ("zarr.json",) if "zarr.json" in metadata else (".zarray", ".zattrs")
    documents = {name: json.loads(metadata[name]) for name in files if name in metadata}
    array_document = documents[files[0]]
    rank = len(array_document["shape"])
    array_document["shape"] = [*map(int, shape)]
    (_change_v3 if files == ("zarr.json",) else _change_v2)(array_document, request)
    for attributes in (documents.get(".zattrs"), array_document.get("attributes")):
        names = attributes.get(DIMENSIONS) if isinstance(attributes, dict) else None
        if attributes and isinstance(names, list) and len(names) == rank:
            attributes.pop(DIMENSIONS)
            if request.axes is not None:
                attributes[DIMENSIONS] = request.along(names)
    return {name: json.dumps(document, indent=2).encode() for name, document in documents.items()}


def attribute_remarks(metadata: Mapping[str, bytes]) -> list[str]:
    """Return notes for people: the attributes in metadata, and whether axes have names."""
    documents = [json.loads(text) for text in metadata.values()]
    # false, 0 and null count as no attributes.
    named = [f"attribute {show(name)}" for name in _attributes(metadata)]
    return [*named, "names of axes"] if any(documents[0].get("dimension_names") or ()) else named


def of_dtype(metadata: Mapping[str, bytes], plain: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the metadata of an array with another dtype.

    Args:
        metadata: the metadata of the array.
        plain: the metadata of an array that has this dtype and the same fill value.
    """
    name = "zarr.json" if "zarr.json" in metadata else ".zarray"
    document, plain_document = json.loads(metadata[name]), json.loads(plain[name])
    document |= {key: plain_document[key] for key in ("dtype", "data_type", "fill_value") if key in plain_document}
    if document.get("codecs", [{}])[0].get("name") == "bytes":
        document["codecs"][0] = plain_document["codecs"][0]
    return {**metadata, name: json.dumps(document).encode()}


def smallest(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the metadata of an array of one element with the same codecs."""
    documents = {name: json.loads(text) for name, text in metadata.items() if name != ".zattrs"}
    return {name: json.dumps(_smallest(document)).encode() for name, document in documents.items()}


def _smallest(node: Any, key: str = "") -> Any:
    if key in ("shape", "chunks", "chunk_shape"):
        return [1] * len(node)
    if isinstance(node, dict):
        return {name: _smallest(value, name) for name, value in node.items() if name != "attributes"}
    return [_smallest(item) for item in node] if isinstance(node, list) else node


def shard_levels(metadata: Mapping[str, bytes]) -> list[list[int]]:
    """Return the sizes of a file's content, of inner shards, outer ones first, and of chunks."""
    if "zarr.json" not in metadata:
        return [[*json.loads(metadata[".zarray"])["chunks"]]]
    document = json.loads(as_regular(metadata)["zarr.json"])
    return levels_of(document["codecs"], document["chunk_grid"]["configuration"]["chunk_shape"])


def attributes_of(metadata: Mapping[str, bytes]) -> Json:
    """Return the attributes of an array, without those that name its axes."""
    return {
        key: value for key, value in _attributes(metadata).items() if key != DIMENSIONS or not isinstance(value, list)
    }


def is_same(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> bool:
    """Whether metadata are equal, however they are spelled."""
    return {name: json.loads(text) for name, text in first.items()} == {
        name: json.loads(text) for name, text in second.items()
    }


def axes_of(metadata: Mapping[str, bytes]) -> list[Any]:
    """Return the names of the axes of an array, as Zarr or xarray stores them; empty if there are none."""
    if "zarr.json" in metadata and (names := json.loads(metadata["zarr.json"]).get("dimension_names")):
        return [*names] if any(names) else []
    names = _attributes(metadata).get(DIMENSIONS)
    return names if isinstance(names, list) else []


def _attributes(metadata: Mapping[str, bytes]) -> Json:
    document = json.loads(metadata.get("zarr.json") or metadata.get(".zattrs") or b"{}")
    return (document.get("attributes") if "zarr.json" in metadata else document) or {}


def is_of_xarray(metadata: Mapping[str, bytes]) -> bool:
    """Whether an array of version 2 has a fill value, and axes that xarray has named."""
    document, attributes = json.loads(metadata.get(".zarray", b"{}")), json.loads(metadata.get(".zattrs", b"{}"))
    return document.get("fill_value") is not None and isinstance(attributes, dict) and DIMENSIONS in attributes


def has_fill_value(metadata: Mapping[str, bytes]) -> bool:
    """Whether an array has a fill value; without one, version 2 does not define missing chunks."""
    return ".zarray" not in metadata or json.loads(metadata[".zarray"]).get("fill_value") is not None


def codecs_beside_spec(metadata: Mapping[str, bytes]) -> set[str]:
    """Return the names of an array's codecs that the specification of version 3 does not define."""
    document = json.loads(metadata.get("zarr.json", b"{}"))
    return {name for name in names_inside(document.get("codecs", ())) if name.startswith("numcodecs.")}


def _change_v2(document: Json, request: RequestedLayout) -> None:
    if request.shards:
        raise ValueError("version 2 of Zarr has no shards: write version 3 by --zarr-format 3 (zarr_format=3)")
    document["chunks"] = request.along(document["chunks"]) if request.chunks is None else [*map(int, request.chunks)]
    if request.compressors is not None:
        document["compressor"] = request.compressors[0] if request.compressors else None


def _change_v3(document: Json, request: RequestedLayout) -> None:
    if document.get("dimension_names") is not None:
        names = document.pop("dimension_names")
        if request.axes is not None:
            document["dimension_names"] = request.along(names)
    grid = document["chunk_grid"]["configuration"]
    files, codecs = request.along(grid["chunk_shape"]), _along(document["codecs"], request)
    if request.compressors is not None:
        compress(codecs, request.compressors)
    codecs, grid["chunk_shape"] = rechunked(codecs, files, request.chunks, request.shards, document["shape"])
    is_kept = request.chunks is None and not request.shards and is_ordered(codecs, grid["chunk_shape"])
    document["codecs"] = codecs if is_kept else inward(codecs, len(document["shape"]))


def _along(codecs: Sequence[Json], request: RequestedLayout) -> list[Json]:
    """Return the codecs for an array with other axes: transposes keep their order, and unknown axes lose shards."""
    new_codecs: list[Json] = []
    for codec in codecs:
        new_codec = (
            {**codec, "configuration": {**(codec.get("configuration") or {})}} if "configuration" in codec else codec
        )
        configuration = new_codec.get("configuration", {})
        if new_codec["name"] == SHARDING and not request.axes:
            new_codecs += _along(configuration["codecs"], request)
            continue
        if new_codec["name"] == SHARDING:
            configuration |= {
                "chunk_shape": request.along(configuration["chunk_shape"]),
                "codecs": _along(configuration["codecs"], request),
            }
        elif new_codec["name"] == "transpose":
            if request.axes is None:
                continue
            order, remaining_axes = configuration["order"], sorted(request.axes)
            configuration["order"] = [remaining_axes.index(k) for k in order if k in remaining_axes]
            request = request._replace(axes=[order.index(request.axes[k]) for k in configuration["order"]])
        new_codecs.append(new_codec)
    return new_codecs
