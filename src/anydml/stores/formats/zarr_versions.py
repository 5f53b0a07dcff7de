"""Metadata of Zarr arrays in the other version of the format."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from typing import Any

from anydml.stores.formats.zarr_codecs import SHUFFLES, as_stored, coder_of
from anydml.stores.formats.zarr_in_memory import in_memory
from anydml.stores.formats.zarr_metadata import DIMENSIONS
from anydml.stores.formats.zarr_shards import Json, flat
from anydml.stores.formats.zarr_strings import CODEC
from anydml.stores.formats.zarr_warnings import unwarned


def in_version(metadata: Mapping[str, bytes], version: int, with_compressors: bool = True) -> dict[str, bytes]:
    """Return the metadata of an array in a version of the format.

    Names of axes are kept: in version 2 they are an attribute, as xarray writes it. Files get the usual names of that
    version.

    Args:
        metadata: contents of the files that describe the array, by name.
        version: 2 or 3.
        with_compressors: whether the compressors are converted, too; otherwise the version may lack them.

    Raises:
        ValueError: the version does not have something of the array.
    """
    if ("zarr.json" in metadata) == (version == 3):
        return dict(metadata)
    return _to_version_3(metadata, with_compressors) if version == 3 else _second(metadata, with_compressors)


def _to_version_3(metadata: Mapping[str, bytes], with_compressors: bool) -> dict[str, bytes]:
    import zarr
    from zarr.metadata.migrate_v3 import migrate_v2_to_v3

    old_document = json.loads(metadata[".zarray"])
    if [options.get("id") for options in old_document.get("filters") or ()] == [CODEC]:
        return _third_of_texts(metadata, old_document, with_compressors)
    if not with_compressors:
        old_document["compressor"] = None
    of_bytes = _of_bytes(old_document)
    array = in_memory({**metadata, ".zarray": json.dumps(old_document).encode()})
    if old_document.get("fill_value") is None:
        # Version 3 requires a fill value; zarr-python reads missing chunks as its default if there is none.
        data_type = array.metadata.dtype
        old_document["fill_value"] = data_type.to_json_scalar(data_type.default_scalar(), zarr_format=2)
        array = in_memory({**metadata, ".zarray": json.dumps(old_document).encode()})
    files: dict[str, Any] = {}
    with unwarned():
        migrate_v2_to_v3(input_store=array.store, output_store=zarr.storage.MemoryStore(files))
    document = json.loads(files["zarr.json"].to_bytes())
    codec_number = (
        1 + next(k for k, codec in enumerate(document["codecs"]) if codec["name"] == "bytes") if of_bytes else 0
    )
    document["codecs"][codec_number:codec_number] = of_bytes
    document["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
    attributes = document.get("attributes")
    names = attributes.get(DIMENSIONS) if isinstance(attributes, dict) else None
    if isinstance(names, list) and len(names) == len(document["shape"]):
        document["dimension_names"] = attributes.pop(DIMENSIONS)
    fill = attributes.get("_FillValue") if isinstance(attributes, dict) else None
    if isinstance(fill, int | float) and str(document["data_type"]).startswith("float"):
        # In version 3, xarray reads this text alone.
        attributes["_FillValue"] = base64.b64encode(struct.pack("<d", fill)).decode()
    return {"zarr.json": json.dumps(document, indent=2).encode()}


def _third_of_texts(metadata: Mapping[str, bytes], old_document: Json, with_compressors: bool) -> dict[str, bytes]:
    """Return version 3's metadata of an array of texts: as for bytes, but with the codec of texts."""
    of_bytes = {**old_document, "dtype": "|u1", "fill_value": 0, "filters": None}
    document = json.loads(
        _to_version_3({**metadata, ".zarray": json.dumps(of_bytes).encode()}, with_compressors)["zarr.json"]
    )
    fill = old_document.get("fill_value")
    document |= {"data_type": "string", "fill_value": fill if isinstance(fill, str) else ""}
    document["codecs"] = [{"name": CODEC} if codec["name"] == "bytes" else codec for codec in document["codecs"]]
    return {"zarr.json": json.dumps(document, indent=2).encode()}


def _of_bytes(document: Json) -> list[Json]:
    """Take the last filters out of metadata of version 2 that are codecs of bytes in version 3, such as shuffle."""
    from zarr.abc.codec import BytesBytesCodec
    from zarr.registry import get_codec_class

    codecs, filters = list[Json](), document.get("filters") or []
    while filters:
        options = {**filters[-1]}
        name = f"numcodecs.{options.pop('id')}"
        try:
            if not issubclass(get_codec_class(name), BytesBytesCodec):
                break
        except KeyError:
            break
        codecs.insert(0, {"name": name, "configuration": options})
        filters.pop()
    document["filters"] = filters or None
    return codecs


def _second(metadata: Mapping[str, bytes], with_compressors: bool) -> dict[str, bytes]:
    import zarr

    document, array = json.loads(metadata["zarr.json"]), in_memory(metadata)
    codecs, chunks = flat(document["codecs"], document["chunk_grid"]["configuration"]["chunk_shape"])
    order, filters, compressors = "C", list[Any](), list[Any]()
    at_elements = True
    for codec in codecs:
        name, options = codec["name"], codec.get("configuration") or {}
        reverse = [*range(len(chunks))][::-1]
        if name == "bytes":
            at_elements = False
        elif name == "transpose" and not filters and order == "C" and [*options["order"]] == reverse:
            order = "F" if len(chunks) > 1 else "C"
        elif name == CODEC:
            at_elements = False
            filters.append(_numcodec(name, options))
        elif at_elements and name.startswith("numcodecs."):
            filters.append(_numcodec(name, options))
            # Some codecs of numcodecs make bytes of elements.
            at_elements = name != "numcodecs.pcodec"
        elif not with_compressors and not at_elements:
            continue
        elif name not in ("zstd", "gzip", "blosc") and not name.startswith("numcodecs."):
            raise ValueError(_not_in_version_2(name, at_elements))
        else:
            # The last codec is the compressor; filters may convert bytes, too.
            filters += compressors
            compressors = [_numcodec(name, options)]
    attributes: Json = dict(document.get("attributes") or {})
    if any(names := document.get("dimension_names") or ()):
        attributes[DIMENSIONS] = names
    files: dict[str, Any] = {}
    dtype = as_stored(array.dtype, [codec for codec in codecs if codec["name"] == "bytes"] or codecs)
    with unwarned():
        zarr.create_array(
            store=zarr.storage.MemoryStore(files), shape=array.shape, chunks=tuple(max(1, size) for size in chunks),
            dtype=dtype, zarr_format=2, order=order, filters=filters or None, compressors=compressors or None,
            fill_value=array.fill_value, attributes=attributes,
        )  # fmt: skip
    new_files = {name: text.to_bytes() for name, text in files.items()}
    return {name: text for name, text in new_files.items() if name != ".zattrs" or attributes}


def _not_in_version_2(name: str, is_of_elements: bool) -> str:
    if name == "transpose":
        return "version 2 of Zarr has no transpose but that of all axes: keep version 3"
    remedy = "keep version 3" if is_of_elements else "name a compressor by --codec"
    return f"version 2 of Zarr has no codec {name}: {remedy}"


def _numcodec(name: str, options: Json) -> Any:
    """Return the codec of numcodecs that a codec of version 3 is."""
    short_name = name.removeprefix("numcodecs.")
    if name == "blosc":
        options = {key: options[key] for key in ("cname", "clevel", "blocksize") if key in options} | {
            "shuffle": SHUFFLES[options["shuffle"]]
        }
    return coder_of({**options, "id": short_name})
